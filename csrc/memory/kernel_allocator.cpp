#include "memory/kernel_allocator.h"

#include "memory/blocks_by_address.h"
#include "memory/device_allocator.h"
#include "memory/kernel_view.h"

#include <c10/core/CPUAllocator.h>
#include <openreg/openreg.h>

#include <cstring>

namespace openreg {
namespace {

constexpr c10::DeviceIndex kNowhere = KernelScope::kHost;
constexpr uint8_t kAboveAll = 255;

constexpr c10::DeviceIndex kOffers = -2;

thread_local c10::DeviceIndex serving = kNowhere;  // a device, kNowhere or kOffers
thread_local std::span<Offer> offers;

// Memory from the pool that a kernel holds: kernel-view address to block. raw_deallocate brings back nothing
// but the address, and so the address is the context of every DataPtr here.
BlocksByAddress& born() {
  static auto* all = new BlocksByAddress;
  return *all;
}

c10::Allocator* host = nullptr;  // PyTorch's own; set before the first kernel

bool is_kernel_view(void* ptr) {
  orPointerAttributes attributes{};
  attributes.struct_size = sizeof(attributes);
  return orPointerGetAttributes(&attributes, static_cast<char*>(ptr) - kernel_view_offset()) == orSuccess &&
         attributes.type == orMemoryTypeDevice;
}

void release(void* ptr) {
  if (Block* block = born().take(ptr)) {
    free_block(block);
  } else if (!is_kernel_view(ptr)) {  // an offer belongs to the tensor that it was allocated for
    host->raw_deleter()(ptr);
  }
}

class KernelAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (C10_LIKELY(serving == kNowhere) || bytes == 0) {
      return host->allocate(bytes);
    }
    if (serving == kOffers) {
      return take_offer(bytes);
    }
    Block* block = device_allocator().allocate_block(serving, bytes);
    void* ptr = kernel_view(block->ptr);
    born().add(ptr, block);
    return {ptr, ptr, &release, c10::Device(c10::kCPU)};
  }

  bool is_simple_data_ptr(const c10::DataPtr& data) const override { return host->is_simple_data_ptr(data); }
  c10::DeleterFnPtr raw_deleter() const override { return &release; }
  void copy_data(void* dst, const void* src, size_t bytes) const override { std::memcpy(dst, src, bytes); }

 private:
  static c10::DataPtr take_offer(size_t bytes) {
    for (Offer& offer : offers) {
      if (!offer.taken && offer.bytes == bytes) {
        offer.taken = true;
        return {offer.kernel_ptr, offer.kernel_ptr, &c10::detail::deleteNothing, c10::Device(c10::kCPU)};
      }
    }
    return host->allocate(bytes);
  }
};

}  // namespace

Block* take_born(c10::DataPtr& data) {
  if (data.get_deleter() != &release) {
    return nullptr;
  }
  Block* block = born().take(data.get());
  if (block != nullptr) {
    data.release_context();
  }
  return block;
}

c10::Allocator& kernel_allocator() {
  static auto* allocator = [] {
    host = c10::GetCPUAllocator();
    auto* made = new KernelAllocator;
    c10::SetCPUAllocator(made, kAboveAll);
    return made;
  }();
  return *allocator;
}

OfferScope::OfferScope(std::span<Offer> now) : offers_before_(offers), serving_before_(serving) {
  kernel_allocator();
  offers = now;
  serving = kOffers;
}

OfferScope::~OfferScope() {
  offers = offers_before_;
  serving = serving_before_;
}

KernelScope::KernelScope(c10::DeviceIndex device) : before_(serving) {
  kernel_allocator();
  serving = device;
}

KernelScope::~KernelScope() {
  serving = before_;
}

}  // namespace openreg
