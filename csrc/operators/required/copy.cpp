// Copies: between two tensors of a device, between host and device, between two devices.
//
// PyTorch's copy_ calls _copy_from if one side is a device tensor. Dtypes and strides may differ. If both
// sides have the same bytes in the same order, the runtime copies them. Otherwise a kernel reads one side and
// writes the other, without a temporary tensor where possible.
#include "common/gil_release.h"
#include "device_code/kernel_library.h"
#include "diagnostics/op_stats.h"
#include "diagnostics/tensor_access.h"
#include "kernel/arg_alias.h"
#include "kernel/copy_kernel.h"
#include "kernel/kernel.h"
#include "kernel/memory_overlap.h"
#include "kernel/thread_state.h"
#include "memory/host_allocator.h"
#include "memory/kernel_view.h"
#include "operators/required/host_staging.h"
#include "stream/capture.h"
#include "stream/checked_stream.h"
#include "stream/schedule.h"

#include <ATen/ExpandUtils.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/copy.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/Event.h>
#include <torch/library.h>

#include <atomic>

namespace openreg {
namespace {

bool same_bytes(const at::Tensor& dst, const at::Tensor& src) {
  return dst.dtype() == src.dtype() && dst.sizes() == src.sizes() && dst.strides() == src.strides() &&
         dst.is_non_overlapping_and_dense() && dst.is_conj() == src.is_conj() && dst.is_neg() == src.is_neg();
}

// Whether the kernel will warn that it discards imaginary parts. It warns once per process.
bool warns(const at::Tensor& dst, const at::Tensor& src) {
  if (C10_LIKELY(!src.is_complex()) || dst.is_complex() || dst.scalar_type() == at::kBool) {
    return false;
  }
  static std::atomic<bool> warned{false};
  return !warned.exchange(true) || c10::WarningUtils::get_warnAlways();
}

// Whether the kernel can convert the dtype. It rejects dtypes that only store bits, such as bits8 and int4.
bool is_arithmetic(const at::Tensor& tensor) {
  const at::ScalarType dtype = tensor.scalar_type();
  return at::isIntegralType(dtype, /*includeBool=*/true) || at::isComplexType(dtype) ||
         (at::isFloatingType(dtype) && dtype != at::ScalarType::Float4_e2m1fn_x2);
}

// For a device that cannot run host code: by a copy or a function of the device where possible, else through
// the host.
void copy_without_view(const at::Tensor& dst, const at::Tensor& src, c10::DeviceIndex device) {
  const bool on_one_device = on_device(dst) && on_device(src);
  if (on_one_device && same_bytes(dst, src)) {
    OR_CHECK(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(), orMemcpyDeviceToDevice,
                           current_stream_handle(device)));
    return;
  }
  if (on_one_device && !overlaps_itself(dst) && !overlaps_partly(dst, src) &&
      at::is_expandable_to(src.sizes(), dst.sizes()) && launch_library_copy(dst, src)) {
    return;
  }
  check_uncaptured(device, "a copy that converts on the host");
  note_wait();
  const at::Tensor value = on_device(src) ? read_to_host(src) : src;
  if (on_device(dst)) {
    write_from_host(dst, value);
  } else {
    dst.copy_(value);
  }
}

void copy_by_kernel(const at::Tensor& dst, const at::Tensor& src, c10::DeviceIndex device) {
  if (C10_UNLIKELY(races::on())) {
    declare_copy(dst, src, current_stream(device));
  }
  if (C10_UNLIKELY(!has_kernel_view())) {
    copy_without_view(dst, src, device);
    return;
  }
  // The kernel rejects overlapping tensors, shapes that do not broadcast and some dtypes. A launched kernel
  // would report such an error late and drop warnings, so these copies run synchronously.
  if (on_device(dst) && on_device(src) && !(overlaps_itself(dst) || overlaps_partly(dst, src)) &&
      at::is_expandable_to(src.sizes(), dst.sizes()) && is_arithmetic(dst) && is_arithmetic(src) &&
      (capturing(device) || (schedule() != orScheduleBlocking && !warns(dst, src)))) {
    launch_copy(dst, src);
    return;
  }
  const at::Tensor to = on_device(dst) ? alias(dst, true) : dst;
  const at::Tensor from = on_device(src) ? alias(src, false) : src;
  run_kernel("copy", device, [&] { to.copy_(from); });
}

// Records an event: pinned memory must not be reused before the copy is done (CachingHostAllocator).
void record_pinned_use(const at::Tensor& host, c10::Stream stream) {
  const c10::DataPtr& data = host.storage().data_ptr();
  host_allocator().record_event(const_cast<void*>(data.get()), data.get_context(), stream);
}

void copy_bytes(const at::Tensor& dst, const at::Tensor& src, c10::Stream stream) {
  if (C10_UNLIKELY(races::on())) {
    declare_copy(dst, src, stream);
  }
  OR_CHECK(orMemcpyAsync(dst.mutable_data_ptr(), src.const_data_ptr(), dst.nbytes(),
                         on_device(dst) ? orMemcpyHostToDevice : orMemcpyDeviceToHost,
                         stream_handle(stream)));
}

// A kernel that accesses host memory synchronizes. With pinned memory, the runtime copies the bytes
// unchanged, and a kernel on the device converts dtype and strides.
bool copy_pinned_through_device(const at::Tensor& dst, const at::Tensor& src, c10::DeviceIndex device) {
  const at::Tensor& host = on_device(dst) ? src : dst;
  if (!host.is_non_overlapping_and_dense() || host.is_conj() || host.is_neg() ||
      !is_pinned(host.const_data_ptr())) {
    return false;
  }
  const at::Tensor staged = at::empty_strided(host.sizes(), host.strides(),
                                              host.options().device(kDevice, device).pinned_memory(false));
  const c10::Stream stream = current_stream(device);
  if (on_device(dst)) {
    copy_bytes(staged, src, stream);
    copy_by_kernel(dst, staged, device);
  } else {
    copy_by_kernel(staged, src, device);
    copy_bytes(dst, staged, stream);
  }
  record_pinned_use(host, stream);
  return true;
}

// For the race check: the copy was synchronous.
void declare_synchronized(c10::DeviceIndex device) {
  if (C10_UNLIKELY(races::on())) {
    races::host_waited_for_stream(checked_stream(current_stream(device)));
  }
}

void copy_host(const at::Tensor& dst, const at::Tensor& src, bool non_blocking) {
  const bool to_device = on_device(dst);
  const at::Tensor& host = to_device ? src : dst;
  const c10::DeviceIndex device = (to_device ? dst : src).device().index();
  if (C10_UNLIKELY(!host.is_cpu())) {  // another accelerator, such as a GPU: through the host
    dst.copy_(src.cpu());
    return;
  }
  DeviceScope scope(device);
  const GilRelease waiting;
  if (capturing(device) && !(non_blocking && is_pinned(host.const_data_ptr()))) {
    check_uncaptured(device,
                     "a copy between host and device, other than with non_blocking=True and pinned memory,");
  }
  if (!same_bytes(dst, src)) {
    if (non_blocking && copy_pinned_through_device(dst, src, device)) {
      return;
    }
    note_wait();
    copy_by_kernel(dst, src, device);
    declare_synchronized(device);
    return;
  }
  const c10::Stream stream = current_stream(device);
  copy_bytes(dst, src, stream);
  if (!non_blocking) {
    note_wait();
    synchronize_stream(stream);
  } else if (is_pinned(host.const_data_ptr())) {
    record_pinned_use(host, stream);
  } else if (!to_device) {
    note_wait();
    declare_synchronized(device);
  }
}

// The copy runs on the source's stream. It waits for work on the destination's stream that uses the old
// contents, and later work on the destination's stream waits for the copy.
void copy_peer_bytes(const at::Tensor& dst, const at::Tensor& src) {
  const c10::DeviceIndex dst_device = dst.device().index();
  const c10::DeviceIndex src_device = src.device().index();
  const c10::Stream dst_stream = current_stream(dst_device);
  const c10::Stream src_stream = current_stream(src_device);
  c10::Event dst_ready(kDevice);
  dst_ready.record(dst_stream);
  dst_ready.block(src_stream);
  if (C10_UNLIKELY(races::on())) {
    declare_copy(dst, src, src_stream);
  }
  OR_CHECK(orMemcpyPeerAsync(dst.mutable_data_ptr(), dst_device, src.const_data_ptr(), src_device,
                             dst.nbytes(), stream_handle(src_stream)));
  c10::Event copied(kDevice);
  copied.record(src_stream);
  copied.block(dst_stream);
}

void copy_peer(const at::Tensor& dst, const at::Tensor& src) {
  if (same_bytes(dst, src)) {
    copy_peer_bytes(dst, src);
    return;
  }
  const at::Tensor packed = src.resolve_conj().resolve_neg().to(dst.scalar_type()).contiguous();
  const at::Tensor received = at::empty_like(packed, packed.options().device(dst.device()));
  copy_peer_bytes(received, packed);
  DeviceScope scope(dst.device().index());
  copy_by_kernel(dst, received, dst.device().index());
}

at::Tensor copy_from(const at::Tensor& src, const at::Tensor& dst, bool non_blocking) {
  if (thread_state.inferring || (dst.numel() == 0 && at::is_expandable_to(src.sizes(), dst.sizes()))) {
    return dst;
  }
  const OperatorCall noted(dst, src, non_blocking);
  for (const at::Tensor* tensor : {&dst, &src}) {
    if (on_device(*tensor)) {
      check_has_memory(*tensor->unsafeGetTensorImpl());
    }
  }
  if (on_device(dst)) {
    materialize_cow(dst.storage().unsafeGetStorageImpl());
  }
  if (!on_device(src) || !on_device(dst)) {
    copy_host(dst, src, non_blocking);
  } else if (src.device() != dst.device()) {
    copy_peer(dst, src);
  } else {
    DeviceScope scope(dst.device().index());
    copy_by_kernel(dst, src, dst.device().index());
  }
  return dst;
}

at::Tensor copy_from_and_resize(const at::Tensor& src, const at::Tensor& dst) {
  dst.resize_(src.sizes());
  return copy_from(src, dst, false);
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("_copy_from", copy_from);
  m.impl("_copy_from_and_resize", copy_from_and_resize);
}

// Conjugate and negative views are passed unresolved, as to copy_: the kernel handles the bits. Without the
// fallthrough, PyTorch would resolve them with a clone, which calls _copy_from again: infinite recursion.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
}  // namespace openreg
