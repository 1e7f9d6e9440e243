// The device's random numbers: a seed and an offset.
//
// Note [Random numbers]
// A random operator takes its numbers from one place that is decided at the launch: the generator's seed and
// offset, and the offset then moves on. So launch order alone decides the numbers, whatever the schedule and
// however many streams. Kernels are borrowed from the CPU and want a CPU generator: each run gets one of its
// own, whose whole state is what Philox (random/philox.h) gives at that seed and offset.
//
// Generators may share their state, as CUDA's do for graphs: graphsafe_get_state returns one that does, and
// graphsafe_set_state makes a generator use another's.
//
// Thread safety: the state has a lock of its own, under which nothing else is called. Which state a generator
// uses is changed under the generator's mutex, as GeneratorImpl says.
#pragma once

#include "common/export.h"

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <mutex>

namespace openreg {

/// Where the numbers of one launch come from.
struct RandomState {
  uint64_t seed;
  uint64_t offset;
};

/// The same for a launch that may be captured: its distance from `base`, which each replay sets. See
/// Note [Random numbers in graphs].
struct RandomPlace {
  RandomState state{};
  const RandomState* base = nullptr;                      // null: `state` is the place
  c10::intrusive_ptr<c10::intrusive_ptr_target> owner{};  // of base

  RandomState now() const {
    return base == nullptr ? state : RandomState{base->seed, base->offset + state.offset};
  }
};

inline constexpr uint64_t kNumbersPerLaunch = 4;  // offsets are multiples of Philox's block, as on CUDA

/// What one generator, or several that share it, have left to give.
class RandomSource final : public c10::intrusive_ptr_target {
 public:
  explicit RandomSource(RandomState state) : state_(state) {}

  /// The place for one launch; the next launch gets the next one. Or for several: `numbers` is a multiple of
  /// kNumbersPerLaunch.
  RandomState reserve(uint64_t numbers = kNumbersPerLaunch);
  RandomState get() const;
  void set(RandomState state);

 private:
  mutable std::mutex mutex_;  // guards state_
  RandomState state_;
};

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);
  Generator(c10::DeviceIndex device, c10::intrusive_ptr<RandomSource> source);

  RandomState reserve(uint64_t numbers = kNumbersPerLaunch) { return source_->reserve(numbers); }
  const c10::intrusive_ptr<RandomSource>& source() const { return source_; }

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return source_->get().seed; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return source_->get().offset; }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;
  void graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) override;
  c10::intrusive_ptr<c10::GeneratorImpl> graphsafe_get_state() const override;

 private:
  Generator* clone_impl() const override;
  // Where a generator is, is not known during a capture.
  void check_uncaptured(const char* what) const;

  c10::intrusive_ptr<RandomSource> source_;
};

/// The generator that operators of the device use when none is given. Never destroyed.
OPENREG_EXPORT const at::Generator& default_generator(c10::DeviceIndex device);

/// The place for one launch on the device's current stream, from `given` or the device's default. Throws if
/// `given` is not a generator of this device type.
RandomPlace reserve_random(const std::optional<at::Generator>& given, c10::DeviceIndex device);

/// A CPU generator at that place. It belongs to the calling thread, until its next call.
const at::Generator& generator_at(RandomState state);

}  // namespace openreg
