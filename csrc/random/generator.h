// The device's random number generator: a seed and an offset.
//
// Note [Random numbers]
// A random operator draws from a position that is fixed at the launch: the generator's seed and offset. The
// launch then advances the offset. So the launch order alone determines the numbers, for every schedule and
// any number of streams. CPU kernels require a CPU generator: each run gets one whose whole state is computed
// by Philox (random/philox.h) from that seed and offset.
//
// Generators may share their state, as CUDA's do for graphs: graphsafe_get_state returns a generator that
// shares the state, and graphsafe_set_state makes a generator share the state of another.
//
// Thread safety: the state has its own lock, a leaf of the lock order. The choice of the state that a
// generator uses is guarded by the generator's mutex, as GeneratorImpl requires.
#pragma once

#include "common/export.h"
#include "common/version.h"

#include <ATen/core/Generator.h>
#include <c10/core/GeneratorImpl.h>

#include <mutex>

namespace openreg {

/// The position from which one launch draws.
struct RandomState {
  uint64_t seed;
  uint64_t offset;
};

/// The same for a launch that may be captured: an offset from `base`, which each replay sets. See Note
/// [Random numbers in graphs].
struct PhiloxState {
  RandomState state{};
  const RandomState* base = nullptr;                      // null: `state` is absolute
  c10::intrusive_ptr<c10::intrusive_ptr_target> owner{};  // keeps base alive

  RandomState now() const {
    return base == nullptr ? state : RandomState{base->seed, base->offset + state.offset};
  }
};

/// Marks the offset of a state that was read during a capture; see Note [Random numbers in graphs].
inline constexpr uint64_t kInCapture = uint64_t{1} << 63;

inline constexpr uint64_t kNumbersPerLaunch = 4;  // offsets are multiples of a Philox block, as in CUDA

/// The state of one generator, or of several that share it.
class RandomSource final : public c10::intrusive_ptr_target {
 public:
  explicit RandomSource(RandomState state) : state_(state) {}

  /// Returns the position for one launch, and advances by `numbers`, a multiple of kNumbersPerLaunch. A graph
  /// replay reserves for several launches at once.
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
#if OR_HAS_PHILOX_STATE
  void philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset,
                    at::Tensor& intragraph_offset) override;
#endif

 private:
  Generator* clone_impl() const override;
  // Throws during a capture: the values are known only at each replay.
  void check_uncaptured(const char* what) const;

  c10::intrusive_ptr<RandomSource> source_;
};

/// The device's default generator. Never destroyed.
OPENREG_EXPORT const at::Generator& default_generator(c10::DeviceIndex device);

/// Reserves the position for one launch on the device's current stream, from `given` or the default
/// generator. Throws if `given` is not a generator of this device type.
PhiloxState reserve_random(const std::optional<at::Generator>& given, c10::DeviceIndex device);

/// A CPU generator at that position. It belongs to the calling thread and is valid until the thread's next
/// call.
const at::Generator& generator_at(RandomState state);

}  // namespace openreg
