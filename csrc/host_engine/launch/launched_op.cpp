#include "host_engine/launch/launched_op.h"

#include "common/check.h"
#include "diagnostics/watched_launch.h"
#include "kernel/arg_alias.h"
#include "kernel/kernel_guard.h"
#include "kernel/submit.h"
#include "kernel/thread_state.h"
#include "memory/kernel_view.h"
#include "memory_check/memory_check.h"
#include "stream/capture.h"

#include <ATen/Context.h>
#include <ATen/ops/empty_strided.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <atomic>
#include <optional>
#include <sstream>

namespace openreg {
namespace {

// Free list of recycled objects, shared by all threads.
std::atomic<LaunchedOp*> free_list{nullptr};

// The objects that a thread took from the free list. They return to it when the thread ends.
struct ThreadFreeList {
  LaunchedOp* first = nullptr;
  ~ThreadFreeList() { LaunchedOp::recycle_all(first); }
};

}  // namespace

LaunchedOp* LaunchedOp::take() {
  static thread_local ThreadFreeList mine;
  if (mine.first == nullptr) {
    mine.first = free_list.exchange(nullptr, std::memory_order_acquire);
  }
  if (mine.first == nullptr) {
    return new LaunchedOp;
  }
  LaunchedOp* op = mine.first;
  mine.first = op->next_;
  op->stack_.clear();
  op->output_buffers_.clear();
  op->held_.clear();
  op->used_ = 0;
  op->written_.clear();
  return op;
}

void LaunchedOp::recycle(LaunchedOp* op) {
  op->kept_.reset();
  LaunchedOp* head = free_list.load(std::memory_order_relaxed);
  do {
    op->next_ = head;
  } while (!free_list.compare_exchange_weak(head, op, std::memory_order_release, std::memory_order_relaxed));
}

void LaunchedOp::recycle_all(LaunchedOp* first) {
  while (first != nullptr) {
    recycle(std::exchange(first, first->next_));
  }
}

orKernel LaunchedOp::kernel_named(const char* name) {
  return {name, memory_check::on() ? &LaunchedOp::run_checked : &LaunchedOp::run, &LaunchedOp::release};
}

void LaunchedOp::set(const c10::OperatorHandle& op, OutputPlanPtr plan, bool takes_output_buffers) {
  op_ = op;
  takes_output_buffers_ = takes_output_buffers;
  generator_ = -1;
  consumed_ = false;
  site_.clear();
  plan_ = std::move(plan);
  settings_ = LaunchSettings::now();
  deterministic_ = at::globalContext().deterministicAlgorithms();
}

at::Tensor LaunchedOp::make_alias(const at::Tensor& tensor, bool writes) {
  at::Tensor made = fill_alias(tensor, writes);
  if (writes) {
    written_.emplace_back(made);
    if (C10_UNLIKELY(!aliases_[used_ - 1].defined())) {
      held_.push_back(made);  // keeps the storage that AliasPlace points to
    }
  }
  return made;
}

at::Tensor LaunchedOp::fill_alias(const at::Tensor& tensor, bool writes) {
  if (used_ == aliases_.size()) {
    aliases_.emplace_back();
  }
  at::Tensor& slot = aliases_[used_++];
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(!slot.defined() || slot.use_count() != 1 || impl->is_conj() || impl->is_neg() ||
                   impl->is_wrapped_number() || !impl->has_storage())) {
    slot = alias(tensor, writes);
    at::Tensor made = slot;
    if (impl->is_conj() || impl->is_neg() || impl->is_wrapped_number()) {
      slot.reset();  // not reusable: it has the bits of this tensor
    }
    return made;
  }
  c10::TensorImpl* alias_impl = slot.unsafeGetTensorImpl();
  alias_impl->set_storage_and_dtype(c10::Storage(alias_of(*impl, writes)), impl->dtype());
  alias_impl->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  return slot;
}

void LaunchedOp::submit(const orKernel& kernel, orStream_t stream) {
  LaunchedOp* self = this;
  const bool captured = C10_UNLIKELY(any_capture()) && capture_of(stream) != 0;
  captured_ = captured;
  std::optional<WatchedLaunch> watched;
  if (C10_UNLIKELY(launches_are_watched())) {
    watched.emplace(arguments_text());
  }
  const orError_t error = submit_kernel(stream, kernel, &self, sizeof(self), captured);
  if (C10_UNLIKELY(error != orSuccess)) {
    recycle(this);
    OR_CHECK_RESULT(error, orLaunchKernel);
  }
}

orError_t LaunchedOp::run(void* args, char* why, size_t why_size) {
  LaunchedOp* op = *static_cast<LaunchedOp**>(args);
  const auto body = [op] {
    op->execute();
    TORCH_CHECK(op->restore_aliases(),
                "the kernel needed more memory for an output than was inferred when it was "
                "launched");
  };
  const orError_t result = run_kernel_body(body, why, why_size);
  if (C10_UNLIKELY(result != orSuccess)) {
    op->restore_aliases();
    append_context(why, why_size, op->launch_context(op->site_).c_str());
  }
  return result;
}

orError_t LaunchedOp::run_checked(void* args, char* why, size_t why_size) {
  const orError_t result = run(args, why, why_size);
  const LaunchedOp* op = *static_cast<LaunchedOp**>(args);
  for (const AliasPlace& place : op->written_) {
    memory_check::check_around(place.data);
  }
  for (const OutputBuffer& output_buffer : op->output_buffers_) {
    memory_check::check_around(output_buffer.kernel_ptr);
  }
  if (memory_check::found_any()) {
    memory_check::set_context(op->launch_context(call_site_text(memory_check::site_of_kernel())));
  }
  return result;
}

std::string LaunchedOp::arguments_text() const {
  std::ostringstream text;
  constexpr size_t kMaxShown = 6;
  for (size_t i = 0; i < std::min(used_, kMaxShown); ++i) {
    if (aliases_[i].defined()) {
      text << (i == 0 ? "" : " ") << aliases_[i].scalar_type() << aliases_[i].sizes();
    }
  }
  if (used_ > kMaxShown) {
    text << " and " << used_ - kMaxShown << " more";
  }
  // The buffer has a fixed size, and most of it is for the reason of the failure.
  constexpr size_t kLongestArguments = 160;
  std::string arguments = text.str();
  if (arguments.size() > kLongestArguments) {
    arguments = arguments.substr(0, kLongestArguments) + "...";
  }
  return arguments;
}

std::string LaunchedOp::launch_context(const std::string& site) const {
  return " [arguments: " + arguments_text() + (site.empty() ? "" : "; launched at " + site) + ']';
}

void LaunchedOp::release(void* args) {
  LaunchedOp* op = *static_cast<LaunchedOp**>(args);
  if (C10_UNLIKELY(op->captured_)) {
    op->random_ = {};
  }
  recycle(op);
}

bool LaunchedOp::restore_aliases() {
  bool none_left = true;
  for (const AliasPlace& place : written_) {
    if (C10_UNLIKELY(place.left())) {
      place.restore();
      none_left = false;
    }
  }
  return none_left;
}

void LaunchedOp::execute() {
  if (C10_LIKELY(!captured_)) {
    TORCH_CHECK(!consumed_, "it was captured without a torch graph, so it can run only once; use torch.",
                orGetDeviceName(), ".graph");
    consumed_ = true;
    execute(stack_);
    return;
  }
  for (OutputBuffer& output_buffer : output_buffers_) {
    output_buffer.taken = false;
  }
  scratch_.assign(stack_.begin(), stack_.end());
  execute(scratch_);
}

void LaunchedOp::execute(torch::jit::Stack& stack) {
  const OutputBufferScope scope(takes_output_buffers_ ? std::span<OutputBuffer>(output_buffers_)
                                                      : std::span<OutputBuffer>());
  // The deterministic mode is process-wide, and kernels read it when they run. If it was switched off after
  // the launch, the kernel runs on one thread, which fixes the order of sums.
  const bool single_threaded = deterministic_ && !at::globalContext().deterministicAlgorithms();
  LaunchSettings settings = settings_;
  if (C10_UNLIKELY(single_threaded)) {
    settings.threads = 1;
  }
  const LaunchSettingsGuard guard(settings);
  if (generator_ >= 0) {
    stack[static_cast<size_t>(generator_)] = generator_at(random_.now());
  }
  if (C10_UNLIKELY(kept_)) {
    kept_.call(&stack);
  } else {
    op_->redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
  }
  if (plan_) {
    place_results(stack);
  }
  stack.clear();
}

// Most kernels have written their results to the output buffers. Copies the others there, through a temporary
// if a kernel may have put a result in the buffer of another.
void LaunchedOp::place_results(const torch::jit::Stack& stack) {
  struct Misplaced {
    at::Tensor made;
    at::Tensor place;
  };
  c10::SmallVector<Misplaced, 2> misplaced;
  const size_t first = stack.size() - plan_->results.size();
  size_t next = 0;
  const auto inspect = [&](const at::Tensor& made, const TensorSpec& spec) {
    if (!spec.defined) {
      return;
    }
    const OutputBuffer& output_buffer = output_buffers_[next++];
    if (C10_LIKELY(made.defined() && !made.is_conj() && !made.is_neg() &&
                   made.const_data_ptr() == output_buffer.kernel_ptr && made.sizes() == spec.sizes &&
                   made.strides() == spec.strides)) {
      return;
    }
    // Empty results need no copy. Some kernels return them in another shape than their Meta kernels.
    if (made.defined() && made.numel() == 0 && c10::multiply_integers(spec.sizes) == 0) {
      return;
    }
    TORCH_CHECK(made.defined() && made.sizes() == spec.sizes, "the kernel returned a result of the shape ",
                made.defined() ? made.sizes() : at::IntArrayRef(), " where ", at::IntArrayRef(spec.sizes),
                " was inferred when it was launched");
    if (made.numel() == 0) {
      return;
    }
    at::Tensor place = at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(c10::Storage::use_byte_size_t(), spec.bytes,
                     c10::DataPtr(output_buffer.kernel_ptr, c10::Device(c10::kCPU)), nullptr, false),
        c10::DispatchKeySet(c10::DispatchKey::CPU), spec.dtype);
    place.unsafeGetTensorImpl()->set_sizes_and_strides(spec.sizes, spec.strides);
    misplaced.push_back({made, std::move(place)});
  };
  for (size_t i = 0; i < plan_->results.size(); ++i) {
    const OutputPlan::Result& result = plan_->results[i];
    if (result.argument != OpTraits::kNewTensor) {
      continue;
    }
    if (!result.list) {
      inspect(stack[first + i].toTensor(), result.tensors[0]);
      continue;
    }
    const c10::List<at::Tensor> made = stack[first + i].toTensorList();
    TORCH_CHECK(made.size() == result.tensors.size(), "the kernel returned ", made.size(), " tensors where ",
                result.tensors.size(), " were inferred when it was launched");
    for (size_t k = 0; k < result.tensors.size(); ++k) {
      inspect(made.get(k), result.tensors[k]);
    }
  }
  if (C10_LIKELY(misplaced.empty())) {
    return;
  }
  const bool any_buffer_taken = std::ranges::any_of(output_buffers_, &OutputBuffer::taken);
  if (any_buffer_taken) {
    for (Misplaced& one : misplaced) {
      one.made = one.made.clone();
    }
  }
  for (const Misplaced& one : misplaced) {
    one.place.copy_(one.made);
  }
}

}  // namespace openreg
