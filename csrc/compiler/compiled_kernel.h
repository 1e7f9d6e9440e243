// Kernels that Inductor has generated as C++ and compiled at run time.
//
// Note [Compiled kernels]
// Inductor generates a Python function that allocates buffers, calls operators, and calls generated kernels.
// A kernel of a device graph is launched: its arguments become kernel-view addresses at the call, and it runs
// later in the order of the current stream, as an operator does. It holds no tensor: the program may free an
// argument after the launch, and the block is reused in stream order. A kernel of a host tensor in the same
// graph runs on the host, at the call. Both check each tensor's device, so that no device pointer reaches
// host code.
//
// Thread safety: all functions may be called from any thread; KernelArguments belongs to one thread.
#pragma once

#include "common/export.h"
#include "compiler/kernel_api.h"
#include "kernel/launch_settings.h"

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <openreg/openreg.h>

#include <string>

namespace openreg {

class KernelArguments;

/// A loaded kernel. Never destroyed, since queued work and graphs refer to it.
class OPENREG_EXPORT CompiledKernel {
 public:
  /// Throws if `generated` was made for another version of the interface.
  CompiledKernel(const orGeneratedKernel* generated, std::string name);

  const std::string& name() const { return name_; }
  size_t args_count() const { return generated_->args_count; }
  orKernelArg arg(size_t index) const { return generated_->args[index]; }
  /// Whether it runs on the host, on host tensors.
  bool on_host() const { return on_host_; }

  /// Launches on the current stream of the arguments' device, or runs a kernel of the host. Under the
  /// blocking schedule it runs before the call returns, and a failure throws here.
  void launch(KernelArguments& arguments) const;

 private:
  static orError_t run(void* args, char* why, size_t why_size);
  void run_on_host(KernelArguments& arguments) const;

  const orGeneratedKernel* generated_;
  std::string name_;
  orKernel kernel_;
  bool on_host_ = false;
};

/// The arguments of one launch, added in order. The functions throw if an argument does not fit.
class OPENREG_EXPORT KernelArguments {
 public:
  /// `device` is ignored for a kernel of the host.
  KernelArguments(const CompiledKernel& kernel, c10::DeviceIndex device);

  void add(const at::Tensor& tensor);
  void add(int64_t value) { slots_.push_back({.integer = value}); }
  void add(double value) { slots_.push_back({.real = value}); }
  /// How the next argument is passed.
  orKernelArg next() const { return kernel_.arg(added_); }
  void step() { ++added_; }

 private:
  friend class CompiledKernel;

  // The start of the block that the runtime copies; the slots of the arguments follow.
  struct Header {
    const CompiledKernel* kernel;
    LaunchSettings settings;
    const char* site;    // launch site, or null
    std::string* error;  // receives the error of a synchronous run; null for a launch
  };
  static constexpr size_t kHeaderSlots = sizeof(Header) / sizeof(orKernelSlot);
  static_assert(sizeof(Header) % sizeof(orKernelSlot) == 0);

  Header& header() { return *reinterpret_cast<Header*>(slots_.data()); }
  void* block() { return slots_.data(); }
  size_t block_size() const { return slots_.size() * sizeof(orKernelSlot); }
  orKernelSlot* arguments() { return slots_.data() + kHeaderSlots; }

  void* device_address(const at::Tensor& tensor, bool writes) const;
  void* host_address(const at::Tensor& tensor, bool writes) const;
  void add_host_scalar(const at::Tensor& tensor);
  [[noreturn]] void reject(const at::Tensor& tensor, const std::string& expected) const;

  const CompiledKernel& kernel_;
  c10::DeviceIndex device_;
  size_t added_ = 0;
  c10::SmallVector<orKernelSlot, 24> slots_;
};

}  // namespace openreg
