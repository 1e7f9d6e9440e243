#include "host_engine/launch/launched_op.h"

#include "common/check.h"
#include "common/gil_release.h"
#include "device/device.h"
#include "host_engine/launch/float_mode.h"
#include "kernel/arg_alias.h"
#include "kernel/kernel_guard.h"
#include "kernel/thread_state.h"
#include "memory/kernel_view.h"
#include "stream/capture.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>
#include <c10/util/Exception.h>
#include <c10/util/accumulate.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <thread>

namespace openreg {
namespace {

// Free list of recycled launches, shared by all threads.
std::atomic<LaunchedOp*> returned{nullptr};

// What a thread has taken of it. The rest goes back with the thread.
struct Stock {
  LaunchedOp* first = nullptr;
  ~Stock() { LaunchedOp::put_back(first); }
};

// A thread that neither launches nor waits is a worker of the runtime.
bool is_worker() {
  return !thread_state.launches && !GilRelease::entered_by_this_thread();
}

// A kernel sees the launching thread's number of threads, its treatment of denormals and whether it wants
// gradients. A worker keeps them for the next kernel, since setting them costs; a host thread that runs work
// while it waits has its own back afterwards.
class LaunchersSettings {
 public:
  LaunchersSettings(int threads, unsigned float_mode, bool gradients)
      : mode_before_(float_mode_now()), gradients_before_(c10::GradMode::is_enabled()) {
    if (C10_UNLIKELY(gradients_before_ != gradients)) {
      c10::GradMode::set_enabled(gradients);
    }
    if (C10_UNLIKELY(mode_before_ != float_mode)) {
      set_float_mode(float_mode);
    }
    const int now = is_worker() ? thread_state.num_threads : at::get_num_threads();
    if (C10_UNLIKELY(now != threads)) {
      threads_before_ = now;
      at::set_num_threads(threads);
      thread_state.num_threads = threads;
    }
  }
  ~LaunchersSettings() {
    if (!is_worker()) {
      c10::GradMode::set_enabled(gradients_before_);
    }
    if (C10_UNLIKELY(threads_before_ > 0) && !is_worker()) {
      at::set_num_threads(threads_before_);
    }
    if (C10_UNLIKELY(float_mode_now() != mode_before_)) {
      set_float_mode(mode_before_);
    }
  }
  LaunchersSettings(const LaunchersSettings&) = delete;
  LaunchersSettings& operator=(const LaunchersSettings&) = delete;

 private:
  int threads_before_ = 0;
  unsigned mode_before_;
  bool gradients_before_;
};

// Work that waits in long queues is cold when its turn comes, so a thread that has got this far ahead
// of a stream lets it catch up; but not for long, since the stream may be waiting for this very thread. The
// runtime is asked at every kLaunchesPerLook-th launch of a thread; a prime, so that a thread which takes
// several streams in turn looks at each of them.
constexpr uint64_t kFarAhead = 1024;
constexpr uint64_t kCaughtUp = 512;
constexpr unsigned kLaunchesPerLook = 61;
constexpr auto kPatience = std::chrono::milliseconds(2) * kLaunchesPerLook;

void let_catch_up(orStream_t stream) {
  const auto pending_there = [stream] {
    uint64_t count = 0;
    return orStreamGetPending(stream, &count) == orSuccess ? count : 0;
  };
  if (C10_UNLIKELY(pending_there() >= kFarAhead)) {
    const GilRelease waiting;
    const auto begin = std::chrono::steady_clock::now();
    while (pending_there() > kCaughtUp && std::chrono::steady_clock::now() - begin < kPatience) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }
}

}  // namespace

LaunchedOp* LaunchedOp::take() {
  static thread_local Stock stock;
  if (stock.first == nullptr) {
    stock.first = returned.exchange(nullptr, std::memory_order_acquire);
  }
  if (stock.first == nullptr) {
    return new LaunchedOp;
  }
  LaunchedOp* work = stock.first;
  stock.first = work->next_;
  work->stack_.clear();
  work->output_buffers_.clear();
  work->held_.clear();
  work->used_ = 0;
  work->written_.clear();
  return work;
}

void LaunchedOp::recycle(LaunchedOp* work) {
  work->kept_.reset();
  LaunchedOp* head = returned.load(std::memory_order_relaxed);
  do {
    work->next_ = head;
  } while (!returned.compare_exchange_weak(head, work, std::memory_order_release, std::memory_order_relaxed));
}

void LaunchedOp::put_back(LaunchedOp* first) {
  while (first != nullptr) {
    recycle(std::exchange(first, first->next_));
  }
}

orKernel LaunchedOp::kernel_named(const char* name) {
  return {name, &LaunchedOp::run, &LaunchedOp::release};
}

void LaunchedOp::set(const c10::OperatorHandle& op, OutputPlanPtr plan, bool takes_output_buffers) {
  op_ = op;
  takes_output_buffers_ = takes_output_buffers;
  generator_ = -1;
  spent_ = false;
  site_.clear();
  plan_ = std::move(plan);
  threads_ = at::get_num_threads();
  float_mode_ = float_mode_now();
  gradients_ = c10::GradMode::is_enabled();
  deterministic_ = at::globalContext().deterministicAlgorithms();
}

at::Tensor LaunchedOp::make_alias(const at::Tensor& tensor, bool writes) {
  at::Tensor made = fill_alias(tensor, writes);
  if (writes) {
    written_.emplace_back(made);
    if (C10_UNLIKELY(!aliases_[used_ - 1].defined())) {
      held_.push_back(made);  // the place needs its storage
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
                   impl->is_wrapped_number())) {
    slot = alias(tensor, writes);
    at::Tensor made = slot;
    if (impl->is_conj() || impl->is_neg() || impl->is_wrapped_number()) {
      slot.reset();  // its bits are not for the next one
    }
    return made;
  }
  c10::TensorImpl* alias_impl = slot.unsafeGetTensorImpl();
  alias_impl->set_storage_and_dtype(
      c10::Storage(alias_of(impl->unsafe_storage().unsafeGetStorageImpl(), writes)), impl->dtype());
  alias_impl->set_sizes_and_strides(impl->sizes(), impl->strides(), impl->storage_offset());
  return slot;
}

void LaunchedOp::submit(const orKernel& kernel, orStream_t stream) {
  // Kernels use what libraries tear down when the process ends.
  [[maybe_unused]] static const int registered = std::atexit(&finish_all_devices);
  thread_state.launches = true;
  LaunchedOp* self = this;
  const bool captured = C10_UNLIKELY(capture_underway()) && capture_of(stream) != 0;
  captured_ = captured;
  const orError_t answer = orLaunchKernel(stream, &kernel, &self, sizeof(self));
  if (C10_UNLIKELY(answer != orSuccess)) {
    recycle(this);
    OR_CHECK(answer);
  }
  if (C10_UNLIKELY(captured)) {
    return;
  }
  static thread_local unsigned since_look = 0;
  if (C10_UNLIKELY(++since_look == kLaunchesPerLook)) {
    since_look = 0;
    let_catch_up(stream);
  }
}

orError_t LaunchedOp::run(void* args, char* why, size_t why_size) {
  LaunchedOp* work = *static_cast<LaunchedOp**>(args);
  const auto body = [work] {
    work->execute();
    TORCH_CHECK(work->restore_aliases(),
                "the kernel needed more memory for an output than was inferred when it was "
                "launched");
  };
  const orError_t result = run_kernel_body(body, why, why_size);
  if (C10_UNLIKELY(result != orSuccess)) {
    work->restore_aliases();
    // The place of the launch stays, whatever has to be cut.
    const std::string words = work->circumstances();
    const size_t room = why_size - 1 - std::min(words.size(), why_size - 1);
    const size_t length = std::min(std::strlen(why), room);
    std::snprintf(why + length, why_size - length, "%s", words.c_str());
  }
  return result;
}

std::string LaunchedOp::circumstances() const {
  std::ostringstream words;
  words << " [arguments:";
  constexpr size_t kMost = 6;
  for (size_t i = 0; i < std::min(used_, kMost); ++i) {
    if (aliases_[i].defined()) {
      words << ' ' << aliases_[i].scalar_type() << aliases_[i].sizes();
    }
  }
  if (used_ > kMost) {
    words << " and " << used_ - kMost << " more";
  }
  if (!site_.empty()) {
    words << "; launched at " << site_;
  }
  words << ']';
  return words.str();
}

void LaunchedOp::release(void* args) {
  LaunchedOp* work = *static_cast<LaunchedOp**>(args);
  if (C10_UNLIKELY(work->captured_)) {
    work->random_ = {};
  }
  recycle(work);
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
    TORCH_CHECK(!spent_, "it was captured by other means than a torch graph, and can run only once");
    spent_ = true;
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
  // Kernels ask for the wish when they run, and there is one for all threads. If it is gone by then, one
  // thread adds up in one order.
  const bool in_order = deterministic_ && !at::globalContext().deterministicAlgorithms();
  const LaunchersSettings settings(C10_UNLIKELY(in_order) ? 1 : threads_, float_mode_, gradients_);
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

// Most kernels have written their results where they belong. For the others: copy, from a copy if two results
// lie in each other's place.
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
                   made.const_data_ptr() == output_buffer.kernel_ptr && made.strides() == spec.strides)) {
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
    if (result.argument != OpTraits::kFresh) {
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
