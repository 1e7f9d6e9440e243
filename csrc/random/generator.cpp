#include "random/generator.h"

#include "device/device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/core/MT19937RNGEngine.h>
#include <ATen/core/PhiloxRNGEngine.h>
#include <ATen/ops/empty.h>

#include <cstring>
#include <mutex>
#include <vector>

namespace openreg {
namespace {

constexpr uint64_t kNumbersPerLaunch = 4;  // offsets are multiples of Philox's block, as on CUDA
constexpr int64_t kStateBytes = sizeof(RandomState);

uint64_t split_mix(uint64_t& state) {
  uint64_t mixed = (state += 0x9E3779B97F4A7C15ull);
  mixed = (mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9ull;
  mixed = (mixed ^ (mixed >> 27)) * 0x94D049BB133111EBull;
  return mixed ^ (mixed >> 31);
}

at::mt19937 engine_at(RandomState state) {
  at::Philox4_32 philox(state.seed, /*subsequence=*/state.offset);
  uint64_t key = philox();
  key = (key << 32) | philox();
  at::mt19937_data_pod data{};
  data.seed_ = state.seed;
  data.left_ = 1;  // exhausted: the first draw stirs the state
  data.seeded_ = true;
  data.next_ = 0;
  for (auto& word : data.state_) {
    word = static_cast<uint32_t>(split_mix(key));
  }
  at::mt19937 engine;
  engine.set_data(data);
  return engine;
}

}  // namespace

Generator::Generator(c10::DeviceIndex device)
    : c10::GeneratorImpl(c10::Device(kDevice, device), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
      state_{c10::default_rng_seed_val, 0} {}

RandomState Generator::reserve() {
  std::lock_guard<std::mutex> lock(mutex_);
  const RandomState place = state_;
  state_.offset += kNumbersPerLaunch;
  return place;
}

void Generator::set_current_seed(uint64_t seed) {
  state_ = {seed, 0};
}

uint64_t Generator::seed() {
  set_current_seed(c10::detail::getNonDeterministicRandom());
  return state_.seed;
}

void Generator::set_offset(uint64_t offset) {
  TORCH_CHECK(offset % kNumbersPerLaunch == 0, "a generator's offset is a multiple of ", kNumbersPerLaunch,
              ", not ", offset);
  state_.offset = offset;
}

void Generator::set_state(const c10::TensorImpl& state) {
  at::detail::check_rng_state(state);
  TORCH_CHECK(state.numel() == kStateBytes, "a generator's state has ", kStateBytes,
              " bytes, seed and offset; got ", state.numel());
  RandomState read{};
  std::memcpy(&read, state.data(), sizeof(read));
  set_current_seed(read.seed);
  set_offset(read.offset);
}

c10::intrusive_ptr<c10::TensorImpl> Generator::get_state() const {
  at::Tensor state = at::empty({kStateBytes}, at::kByte);
  std::memcpy(state.mutable_data_ptr(), &state_, sizeof(state_));
  return state.getIntrusivePtr();
}

Generator* Generator::clone_impl() const {
  auto* copy = new Generator(device().index());
  copy->state_ = state_;
  return copy;
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

RandomState reserve_random(const std::optional<at::Generator>& given, c10::DeviceIndex device) {
  const at::Generator& generator = given.has_value() && given->defined() ? *given : default_generator(device);
  TORCH_CHECK(generator.device().type() == kDevice, "Expected a '", OR_DEVICE_NAME,
              "' device type for generator but found '", c10::DeviceTypeName(generator.device().type(), true),
              "'");
  return generator.get<Generator>()->reserve();
}

const at::Generator& generator_at(RandomState state) {
  static thread_local const at::Generator generator = at::detail::createCPUGenerator();
  auto* impl = generator.get<at::CPUGeneratorImpl>();
  impl->set_current_seed(state.seed);  // forgets numbers that were drawn in pairs
  impl->set_engine(engine_at(state));
  return generator;
}

}  // namespace openreg
