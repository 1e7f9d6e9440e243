// Table of numeric handles. Slots are never freed and have a generation.
//
// Thread safety: all members may be called from any thread. Lookup takes no lock and pins the object.
// Destroying the handle invalidates it immediately; the object is destroyed with the last pin, so a call in
// progress never uses a destroyed object.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace openreg {

template <typename Payload>
class HandleTable {
  struct Slot;

 public:
  /// Called once for each object, on the thread that releases the last pin. Must not throw.
  using Destroy = void (*)(const Payload&);

  /// `tag` distinguishes the handles of this table from those of other tables.
  HandleTable(uint8_t tag, Destroy destroy) : tag_(tag), destroy_(destroy) {}

  class Pin {
   public:
    Pin() = default;
    Pin(Pin&& other) noexcept
        : table_(std::exchange(other.table_, nullptr)), slot_(other.slot_), index_(other.index_) {}
    Pin& operator=(Pin&& other) noexcept {
      std::swap(table_, other.table_);
      std::swap(slot_, other.slot_);
      std::swap(index_, other.index_);
      return *this;
    }
    ~Pin() {
      if (table_) table_->unpin(*slot_, index_);
    }
    explicit operator bool() const { return table_ != nullptr; }
    const Payload* operator->() const { return &slot_->payload; }
    const Payload& operator*() const { return slot_->payload; }

   private:
    friend class HandleTable;
    Pin(HandleTable* table, Slot* slot, uint32_t index) : table_(table), slot_(slot), index_(index) {}
    HandleTable* table_ = nullptr;
    Slot* slot_ = nullptr;
    uint32_t index_ = 0;
  };

  /// Returns the new handle, or 0 if the table is full.
  uint64_t insert(const Payload& payload) {
    std::lock_guard lock(free_mutex_);
    const uint32_t index = take_free_slot();
    if (index == kNone) return 0;
    Slot& slot = *find(index);
    slot.payload = payload;
    const uint64_t generation = (slot.word.load(std::memory_order_relaxed) >> 32) + 1;
    slot.word.store(generation << 32, std::memory_order_release);
    return generation << 32 | uint64_t{index} << 8 | tag_;
  }

  /// Returns an empty pin if the handle is invalid or destroyed.
  Pin pin(uint64_t handle) {
    if ((handle & 0xff) != tag_) return {};
    const uint32_t index = static_cast<uint32_t>(handle) >> 8;
    Slot* slot = find(index);
    if (!slot) return {};
    const uint64_t generation = handle >> 32;
    uint64_t word = slot->word.load(std::memory_order_relaxed);
    do {
      if (word >> 32 != generation || (word & kDead)) return {};
    } while (!slot->word.compare_exchange_weak(word, word + 1, std::memory_order_acquire,
                                               std::memory_order_relaxed));
    return Pin(this, slot, index);
  }

  /// Invalidates the handle of the pinned object. Returns false if another thread has already done so.
  bool kill(const Pin& pin) { return !(pin.slot_->word.fetch_or(kDead, std::memory_order_acq_rel) & kDead); }

  /// Pins and visits each live object.
  template <typename Visit>
  void for_each(Visit&& visit) {
    const uint32_t used = used_.load(std::memory_order_acquire);
    for (uint32_t index = 0; index < used; ++index) {
      const uint64_t word = find(index)->word.load(std::memory_order_acquire);
      if (word & kDead) continue;
      if (Pin pinned = pin((word & ~uint64_t{0xffffffff}) | uint64_t{index} << 8 | tag_)) visit(pinned);
    }
  }

 private:
  static constexpr uint64_t kDead = 1u << 31;
  static constexpr uint32_t kNone = UINT32_MAX;
  static constexpr uint32_t kChunkSize = 256;
  static constexpr uint32_t kChunks = 1u << 12;
  static constexpr uint64_t kLastGeneration = UINT32_MAX;

  struct Slot {
    // Upper half: generation. Lower half: dead bit and number of pins.
    std::atomic<uint64_t> word{kDead};
    Payload payload{};
  };

  Slot* find(uint32_t index) {
    if (index / kChunkSize >= kChunks) return nullptr;
    Slot* chunk = chunks_[index / kChunkSize].load(std::memory_order_acquire);
    return chunk ? &chunk[index % kChunkSize] : nullptr;
  }

  uint32_t take_free_slot() {
    if (!free_.empty()) {
      const uint32_t index = free_.back();
      free_.pop_back();
      return index;
    }
    const uint32_t index = used_.load(std::memory_order_relaxed);
    if (index / kChunkSize >= kChunks) return kNone;
    if (index % kChunkSize == 0) {
      free_.reserve(index + kChunkSize);  // so that freeing a slot never allocates
      chunks_[index / kChunkSize].store(new Slot[kChunkSize], std::memory_order_release);
    }
    used_.store(index + 1, std::memory_order_release);
    return index;
  }

  void unpin(Slot& slot, uint32_t index) {
    const uint64_t before = slot.word.fetch_sub(1, std::memory_order_acq_rel);
    if (static_cast<uint32_t>(before) != (kDead | 1)) return;
    destroy_(slot.payload);
    if (before >> 32 == kLastGeneration) return;  // retire the slot: its handles would repeat
    std::lock_guard lock(free_mutex_);
    free_.push_back(index);
  }

  const uint8_t tag_;
  const Destroy destroy_;
  std::mutex free_mutex_;  // guards free_ and the growth of chunks_
  std::vector<uint32_t> free_;
  std::atomic<uint32_t> used_{0};
  std::unique_ptr<std::atomic<Slot*>[]> chunks_ = std::make_unique<std::atomic<Slot*>[]>(kChunks);
};

}  // namespace openreg
