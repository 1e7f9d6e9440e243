// Intrusive reference counting.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace openreg::sim {

/// Starts with one reference, which the creator owns.
template <typename Self>
class Counted {
 public:
  void retain() const { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() const {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete static_cast<const Self*>(this);
  }
  /// Returns false if the last reference was already released.
  [[nodiscard]] bool try_retain() const {
    uint32_t count = references_.load(std::memory_order_relaxed);
    while (count != 0) {
      if (references_.compare_exchange_weak(count, count + 1, std::memory_order_relaxed)) return true;
    }
    return false;
  }
  /// True if the last reference was released: the destructor runs or is about to run.
  bool expired() const { return references_.load(std::memory_order_acquire) == 0; }
  /// True if the caller's reference is the only one.
  bool unique() const { return references_.load(std::memory_order_acquire) == 1; }

 protected:
  Counted() = default;
  ~Counted() = default;

 private:
  mutable std::atomic<uint32_t> references_{1};
};

template <typename T>
class Ref {
 public:
  Ref() = default;
  explicit Ref(T* object) : object_(object) {
    if (object_) object_->retain();
  }
  /// Takes over a reference that the caller holds.
  static Ref adopt(T* object) {
    Ref ref;
    ref.object_ = object;
    return ref;
  }
  Ref(const Ref& other) : Ref(other.object_) {}
  Ref(Ref&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Ref& operator=(Ref other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Ref() {
    if (object_) object_->release();
  }
  T* get() const { return object_; }
  T* operator->() const { return object_; }
  T& operator*() const { return *object_; }
  explicit operator bool() const { return object_ != nullptr; }

 private:
  T* object_ = nullptr;
};

}  // namespace openreg::sim
