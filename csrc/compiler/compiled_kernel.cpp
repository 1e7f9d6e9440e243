#include "compiler/compiled_kernel.h"

#include "common/check.h"
#include "common/gil_release.h"
#include "device/on_device.h"
#include "diagnostics/op_stats.h"
#include "diagnostics/tensor_access.h"
#include "kernel/launch_site.h"
#include "kernel/submit.h"
#include "memory/kernel_view.h"
#include "stream/capture.h"
#include "stream/schedule.h"
#include "stream/stream.h"

#include <ATen/EmptyTensor.h>

#include <cstring>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace openreg {
namespace {

constexpr size_t kWhySize = 1024;

// Graphs keep launch sites, so they live as long as the process. A program has few.
const char* interned(std::string site) {
  static auto* mutex = new std::mutex;  // guards sites
  static auto* sites = new std::unordered_set<std::string>;
  if (site.empty()) {
    return nullptr;
  }
  std::lock_guard<std::mutex> lock(*mutex);
  return sites->insert(std::move(site)).first->c_str();
}

// Whether the storage holds all elements. An input may have lost its memory: storage.resize_(0).
bool has_memory(const c10::TensorImpl& impl) {
  const size_t needed = at::detail::computeStorageNbytes(impl.sizes(), impl.strides(), impl.itemsize(),
                                                         static_cast<size_t>(impl.storage_offset()));
  return needed <= impl.unsafe_storage().nbytes();
}

}  // namespace

CompiledKernel::CompiledKernel(const orGeneratedKernel* generated, std::string name)
    : generated_(generated), name_(std::move(name)), kernel_{name_.c_str(), &CompiledKernel::run, nullptr} {
  TORCH_CHECK(generated->version == OR_KERNEL_API_VERSION, "the compiled kernel '", name_,
              "' was generated for version ", generated->version,
              " of the kernel interface, and this is version ", OR_KERNEL_API_VERSION,
              "; clear Inductor's cache (TORCHINDUCTOR_CACHE_DIR)");
  bool on_device = false;
  for (size_t i = 0; i < args_count(); ++i) {
    on_host_ |= arg(i) == orArgHostInput || arg(i) == orArgHostOutput;
    on_device |= arg(i) == orArgInput || arg(i) == orArgOutput;
  }
  TORCH_CHECK(!(on_host_ && on_device), "the compiled kernel '", name_,
              "' takes host tensors and device tensors; a kernel runs either on the host or on the device");
  TORCH_CHECK(on_host_ || has_kernel_view(), "the compiled kernel '", name_, "' cannot run: the driver of '",
              orGetDeviceName(), "' does not run host code as kernels (OR_CAP_HOST_EXECUTABLE)");
}

orError_t CompiledKernel::run(void* args, char* why, size_t why_size) {
  auto* header = static_cast<KernelArguments::Header*>(args);
  auto* slots = static_cast<orKernelSlot*>(args) + KernelArguments::kHeaderSlots;
  const LaunchSettingsGuard settings(header->settings);
  if (C10_LIKELY(header->kernel->generated_->run(slots, why, why_size))) {
    return orSuccess;
  }
  if (header->site != nullptr) {
    append_context(why, why_size, (std::string(" [launched at ") + header->site + ']').c_str());
  }
  if (header->error != nullptr) {
    *header->error = why;
  }
  return orErrorKernelFailed;
}

void CompiledKernel::launch(KernelArguments& arguments) const {
  TORCH_CHECK(arguments.added_ == args_count(), "the compiled kernel '", name_, "' takes ", args_count(),
              " arguments, but got ", arguments.added_);
  if (on_host_) {
    run_on_host(arguments);
    return;
  }
  const OperatorCall noted(name_.c_str());
  note_launch();
  KernelArguments::Header& header = arguments.header();
  header = {this, LaunchSettings::now(), generated_->may_fail ? interned(launch_site()) : nullptr, nullptr};
  if (C10_UNLIKELY(races::on())) {
    launch_collected(name_.c_str(), current_stream(arguments.device_));
  }
  const orStream_t stream = current_stream_handle(arguments.device_);
  const bool captured = C10_UNLIKELY(any_capture()) && capture_of(stream) != 0;
  if (C10_LIKELY(schedule() != orScheduleBlocking || captured)) {
    OR_CHECK_RESULT(submit_kernel(stream, kernel_, arguments.block(), arguments.block_size(), captured),
                    orLaunchKernel);
    return;
  }
  std::string error;
  header.error = &error;
  const GilRelease waiting;
  const orError_t result = orRunKernel(stream, &kernel_, arguments.block());
  TORCH_CHECK(error.empty(), "the kernel '", name_, "' failed: ", error);
  OR_CHECK_RESULT(result, orRunKernel);
}

void CompiledKernel::run_on_host(KernelArguments& arguments) const {
  char why[kWhySize] = "";
  TORCH_CHECK(generated_->run(arguments.arguments(), why, sizeof(why)), why);
}

KernelArguments::KernelArguments(const CompiledKernel& kernel, c10::DeviceIndex device)
    : kernel_(kernel), device_(device), slots_(kHeaderSlots) {}

void KernelArguments::add(const at::Tensor& tensor) {
  switch (next()) {
    case orArgInput:
    case orArgOutput:
      slots_.push_back({.pointer = device_address(tensor, next() == orArgOutput)});
      return;
    case orArgHostInput:
    case orArgHostOutput:
      slots_.push_back({.pointer = host_address(tensor, next() == orArgHostOutput)});
      return;
    case orArgHostScalar:
      add_host_scalar(tensor);
      return;
    case orArgInteger:
    case orArgFloat:
      break;
  }
  reject(tensor, "a number");
}

void* KernelArguments::device_address(const at::Tensor& tensor, bool writes) const {
  if (C10_UNLIKELY(!on_device(tensor) || tensor.device().index() != device_)) {
    reject(tensor, c10::str("a tensor on ", orGetDeviceName(), ":", static_cast<int>(device_)));
  }
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (C10_UNLIKELY(!impl->has_storage())) {
    (void)impl->data();  // throws the tensor's own message: its memory was taken by a later replay of a graph
  }
  if (C10_UNLIKELY(!impl->has_storage() || impl->layout() != c10::kStrided || impl->is_conj() ||
                   impl->is_neg())) {
    reject(tensor, "a strided tensor without conj or neg bit");
  }
  c10::StorageImpl* storage = impl->unsafe_storage().unsafeGetStorageImpl();
  if (writes) {
    materialize_cow(storage);
  }
  if (C10_UNLIKELY(!has_memory(*impl))) {
    reject(tensor, "a tensor with all of its memory (was its storage resized?)");
  }
  if (C10_UNLIKELY(races::on())) {
    collect_access(tensor, writes);
  }
  void* data = const_cast<void*>(storage->data());
  if (data == nullptr) {  // empty
    return nullptr;
  }
  return static_cast<char*>(kernel_view(data)) +
         impl->storage_offset() * static_cast<int64_t>(impl->itemsize());
}

void* KernelArguments::host_address(const at::Tensor& tensor, bool writes) const {
  if (C10_UNLIKELY(!tensor.defined() || !tensor.device().is_cpu() || !tensor.has_storage())) {
    reject(tensor, "a host tensor");
  }
  return writes ? tensor.mutable_data_ptr() : const_cast<void*>(tensor.const_data_ptr());
}

void KernelArguments::add_host_scalar(const at::Tensor& tensor) {
  constexpr size_t kSlots = 2;
  if (C10_UNLIKELY(!tensor.defined() || !tensor.device().is_cpu() || tensor.numel() != 1 ||
                   tensor.nbytes() > kSlots * sizeof(orKernelSlot))) {
    reject(tensor, "a host tensor with one element");
  }
  const size_t at = slots_.size();
  slots_.resize(at + kSlots);
  std::memcpy(slots_[at].bytes, tensor.const_data_ptr(), tensor.nbytes());
}

void KernelArguments::reject(const at::Tensor& tensor, const std::string& expected) const {
  TORCH_CHECK(tensor.defined(), "the compiled kernel '", kernel_.name(), "' expects ", expected,
              " as argument ", added_, ", but got no tensor");
  TORCH_CHECK(false, "the compiled kernel '", kernel_.name(), "' expects ", expected, " as argument ", added_,
              ", but got a tensor of shape ", tensor.sizes(), " and dtype ", tensor.scalar_type(), " on ",
              tensor.device());
}

}  // namespace openreg
