#include "random/generator.h"

#include "common/fork.h"
#include "device/device.h"
#include "random/philox.h"
#include "random/replay.h"
#include "stream/capture.h"
#include "stream/stream.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cstring>
#include <vector>

namespace openreg {
namespace {

constexpr int64_t kStateBytes = sizeof(RandomState);

constexpr uint32_t low(uint64_t word) {
  return static_cast<uint32_t>(word);
}

constexpr uint32_t high(uint64_t word) {
  return static_cast<uint32_t>(word >> 32);
}

// The engine of CPU generators, with its state filled from Philox. The counters are as in CUDA: the position
// in the sequence, and the thread index, here the index of the block of four words.
at::mt19937 engine_at(RandomState state) {
  const PhiloxKey key{low(state.seed), high(state.seed)};
  const uint64_t place = state.offset / kNumbersPerLaunch;
  at::mt19937_data_pod data{};
  data.seed_ = state.seed;
  data.left_ = 1;  // exhausted: the first draw generates the next state
  data.seeded_ = true;
  data.next_ = 0;
  static_assert(at::MERSENNE_STATE_N % 4 == 0);
  for (uint32_t block = 0; block < at::MERSENNE_STATE_N / 4; ++block) {
    const PhiloxCounter words = philox({low(place), high(place), block, 0}, key);
    std::copy(words.begin(), words.end(), data.state_.begin() + block * 4);
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

// Some tensors have a size but no data.
void check_data(bool has_data) {
  TORCH_CHECK(has_data,
              "the state tensor of a generator has no data on the host (a fake tensor, a tensor subclass, or "
              "a tensor with a resized storage); pass the tensor that get_state returned");
}

// The random sources of the graph that the device's current stream is captured into, or null.
c10::intrusive_ptr<RandomReplay> current_replay(c10::DeviceIndex device) {
  return C10_UNLIKELY(any_capture()) ? RandomReplay::of(capture_of(current_stream_handle(device))) : nullptr;
}

}  // namespace

RandomState RandomSource::reserve(uint64_t numbers) {
  check_not_forked();
  std::lock_guard<std::mutex> lock(mutex_);
  const RandomState place = state_;
  state_.offset += numbers;
  return place;
}

RandomState RandomSource::get() const {
  check_not_forked();
  std::lock_guard<std::mutex> lock(mutex_);
  return state_;
}

void RandomSource::set(RandomState state) {
  check_not_forked();
  std::lock_guard<std::mutex> lock(mutex_);
  state_ = state;
}

Generator::Generator(c10::DeviceIndex device)
    : Generator(device, c10::make_intrusive<RandomSource>(RandomState{c10::default_rng_seed_val, 0})) {}

Generator::Generator(c10::DeviceIndex device, c10::intrusive_ptr<RandomSource> source)
    : c10::GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      source_(std::move(source)) {}

void Generator::check_uncaptured(const char* what) const {
  openreg::check_uncaptured(device().index(), what);
}

void Generator::set_current_seed(uint64_t seed) {
  if (seed != current_seed()) {  // as in CUDA, a capture may set the seed again to its current value
    check_uncaptured("seeding a generator");
  } else if (capturing(device().index())) {
    return;
  }
  source_->set({seed, 0});
}

uint64_t Generator::seed() {
  const uint64_t seed = c10::detail::getNonDeterministicRandom();
  set_current_seed(seed);
  return seed;
}

void Generator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kNumbersPerLaunch == 0, "offset must be a multiple of ", kNumbersPerLaunch, ", got ",
              offset);
  check_uncaptured("setting a generator's offset");
  source_->set({current_seed(), offset});
}

void Generator::set_state(const c10::TensorImpl& state) {
  // The metadata queries of a Python tensor subclass may call this generator, whose mutex is held.
  check_data(!state.key_set().has(c10::DispatchKey::Python));
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "RNG state is wrong size: seed and offset are ", kStateBytes,
              " bytes, got ", state.numel());
  const void* bytes = state.data();
  const size_t end = static_cast<size_t>(state.storage_offset() + kStateBytes);
  check_data(bytes != nullptr && end <= state.storage().nbytes());
  RandomState read{};
  std::memcpy(&read, bytes, sizeof(read));
  TORCH_CHECK(read.offset % kNumbersPerLaunch == 0, "offset must be a multiple of ", kNumbersPerLaunch,
              ", got ", read.offset, ": the tensor is not the state of a ", orGetDeviceName(), " generator");
  const bool of_capture = (read.offset & kInCapture) != 0;
  if (const auto replay = of_capture ? current_replay(device().index()) : nullptr) {
    TORCH_CHECK(read.seed == current_seed(), "the seed of a generator cannot change during a capture: it is ",
                current_seed(), ", and the state has the seed ", read.seed);
    replay->set_position(source_, read.offset & ~kInCapture);
    return;
  }
  check_uncaptured("setting a generator's state to one that was read outside of captures");
  TORCH_CHECK(!of_capture,
              "the state of the generator was read during the capture of a graph, and is a position in that "
              "graph; it can be set only during a capture");
  source_->set(read);
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  RandomState now = source_->get();
  if (const auto replay = current_replay(device().index())) {
    now.offset = replay->position(source_) | kInCapture;
  } else {
    check_uncaptured("reading a generator's state");
  }
  // Not at::empty: a dispatch mode, for instance FakeTensorMode, would intercept it.
  at::Tensor state =
      at::detail::empty_cpu({kStateBytes}, at::kByte, std::nullopt, std::nullopt, std::nullopt, std::nullopt);
  std::memcpy(state.mutable_data_ptr(), &now, sizeof(now));
  return state.getIntrusivePtr();
}

void Generator::graphsafe_set_state(const c10::intrusive_ptr<c10::GeneratorImpl>& other) {
  const auto* generator = dynamic_cast<const Generator*>(other.get());
  TORCH_CHECK(generator != nullptr, "Expected a ", orGetDeviceName(),
              " Generator to share its state, but got one on ", other->device());
  source_ = generator->source_;
}

c10::intrusive_ptr<c10::GeneratorImpl> Generator::graphsafe_get_state() const {
  return c10::make_intrusive<Generator>(device().index(), source_);
}

#if OR_HAS_PHILOX_STATE
void Generator::philox_state(uint64_t increment, at::Tensor& seed, at::Tensor& offset,
                             at::Tensor& intragraph_offset) {
  const uint64_t numbers = (increment + kNumbersPerLaunch - 1) / kNumbersPerLaunch * kNumbersPerLaunch;
  const auto number = [](uint64_t value) {
    return at::scalar_tensor(static_cast<int64_t>(value), at::kLong).view({1});
  };
  const auto replay = current_replay(device().index());
  if (replay == nullptr) {
    check_uncaptured("reading a generator's state");
    const RandomState now = source_->reserve(numbers);
    seed = number(now.seed);
    offset = number(now.offset);
    intragraph_offset = number(0);
    return;
  }
  const PhiloxState place = replay->reserve(source_, numbers);
  const auto options = at::TensorOptions(at::kLong).device(device());
  seed = at::empty({1}, options);
  offset = at::empty({1}, options);
  RandomReplay::store_base(place, seed, offset, current_stream_handle(device().index()));
  intragraph_offset = number(place.state.offset);
}
#endif

Generator* Generator::clone_impl() const {
  return new Generator(device().index(), c10::make_intrusive<RandomSource>(source_->get()));
}

const at::Generator& default_generator(c10::DeviceIndex device) {
  static const auto* generators = [] {
    auto* made = new std::vector<at::Generator>();
    for (int i = 0; i < kMaxDevices; ++i) {
      made->push_back(at::make_generator<Generator>(static_cast<c10::DeviceIndex>(i)));
    }
    return made;
  }();
  return (*generators)[static_cast<size_t>(resolve(c10::Device(kDevice, device)))];
}

PhiloxState reserve_random(const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  const at::Generator& generator = given.has_value() && given->defined() ? *given : default_generator(device);
  TORCH_CHECK(generator.device().type() == kDevice, "Expected a '", orGetDeviceName(),
              "' device type for generator but found '", c10::DeviceTypeName(generator.device().type(), true),
              "'");
  if (const auto replay = current_replay(device)) {
    return replay->reserve(generator.get<Generator>()->source());
  }
  return {generator.get<Generator>()->reserve()};
}

const at::Generator& generator_at(RandomState state) {
  static thread_local const at::Generator generator = at::detail::createCPUGenerator();
  auto* impl = generator.get<at::CPUGeneratorImpl>();
  impl->set_current_seed(state.seed);  // also clears cached normal samples, which are drawn in pairs
  impl->set_engine(engine_at(state));
  return generator;
}

}  // namespace openreg
