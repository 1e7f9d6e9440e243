// The device's random numbers: a seed and an offset.
//
// Note [Random numbers]
// A random operator takes its numbers from one place that is decided at the launch: the generator's seed and
// offset, and the offset then moves on. So launch order alone decides the numbers, whatever the schedule and
// however many streams. Kernels are borrowed from the CPU and want a CPU generator: each run gets one whose
// state is made from that seed and offset, through Philox 4x32-10, and that nobody else uses.
//
// Thread safety: reserve locks the generator; the rest is as GeneratorImpl says, under the generator's mutex.
#pragma once

#include "common/export.h"

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

namespace openreg {

/// Where the numbers of one launch come from.
struct RandomState {
  uint64_t seed;
  uint64_t offset;
};

class Generator final : public c10::GeneratorImpl {
 public:
  explicit Generator(c10::DeviceIndex device);

  /// The place for one launch; the next launch gets the next one.
  RandomState reserve();

  void set_current_seed(uint64_t seed) override;
  uint64_t current_seed() const override { return state_.seed; }
  uint64_t seed() override;
  void set_offset(uint64_t offset) override;
  uint64_t get_offset() const override { return state_.offset; }
  void set_state(const c10::TensorImpl& state) override;
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override;

 private:
  Generator* clone_impl() const override;

  RandomState state_;
};

/// The generator that operators of the device use when none is given. Never destroyed.
OPENREG_EXPORT const at::Generator& default_generator(c10::DeviceIndex device);

/// The place for one launch, from `given` or the device's default. Throws if `given` is not a generator of
/// this device type.
RandomState reserve_random(const std::optional<at::Generator>& given, c10::DeviceIndex device);

/// A CPU generator at that place. It belongs to the calling thread, until its next call.
const at::Generator& generator_at(RandomState state);

}  // namespace openreg
