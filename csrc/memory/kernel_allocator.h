// The CPU allocator, as seen from inside a kernel: its memory is device memory.
//
// Note [Born on the device]
// A CPU kernel that makes its own output asks PyTorch's CPU allocator for memory. While a kernel of ours runs
// on a thread, that allocator serves from the device's pool, so the output is born where it belongs and
// nothing is copied. The switch is thread-local; everywhere else the allocator costs one thread-local test
// more than before.
//
// A kernel that runs after its launch has returned gets no memory from the pool, whose free blocks are free
// in the order of launches and not in the order of execution. It is offered the outputs that were allocated
// at the launch, each to the first request of its size; everything else is scratch, and comes from the host.
//
// Memory that is born or offered belongs to the result, so a kernel must not keep what it has made. PyTorch's
// do not. Those of others, as one in Python with a cache, get all memory from the host, and results are
// copied.
//
// The allocator is process-wide, so it is installed at the first kernel and not at import.
#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>

#include <span>

namespace openreg {

struct Block;

c10::Allocator& kernel_allocator();

/// Takes the block from a DataPtr of memory that a kernel got from the pool, which then owns nothing; NULL if
/// it is other memory.
Block* take_born(c10::DataPtr& data);

/// Memory for an output, allocated at the launch.
struct Offer {
  void* kernel_ptr;
  size_t bytes;
  bool taken;
};

/// While it lives, CPU allocations of this thread that have the size of an offer take it. Scopes nest.
class OfferScope {
 public:
  explicit OfferScope(std::span<Offer> offers);
  ~OfferScope();
  OfferScope(const OfferScope&) = delete;
  OfferScope& operator=(const OfferScope&) = delete;

 private:
  std::span<Offer> offers_before_;
  c10::DeviceIndex serving_before_;
};

/// While it lives, CPU allocations of this thread come from `device`, or from the host. Scopes nest.
class KernelScope {
 public:
  static constexpr c10::DeviceIndex kHost = -1;

  explicit KernelScope(c10::DeviceIndex device);
  ~KernelScope();
  KernelScope(const KernelScope&) = delete;
  KernelScope& operator=(const KernelScope&) = delete;

 private:
  c10::DeviceIndex before_;
};

}  // namespace openreg
