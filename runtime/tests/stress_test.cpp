// Random work over threads, streams, devices and events. The results are compared with the values that stream
// order and events imply. OPENREG_STRESS is a factor on the number of steps.
#include "support.h"

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

using namespace support;

namespace {

constexpr int kThreads = 8;
constexpr int kStreamsPerDevice = 16;
constexpr int kDevices = 2;
constexpr int kStreams = kStreamsPerDevice * kDevices;

uint64_t mix(uint64_t a, uint64_t b) {
  a ^= b + 0x9e3779b97f4a7c15ull + (a << 6) + (a >> 2);
  return a * 0xff51afd7ed558ccdull ^ (a >> 29);
}

// Operation k of a stream writes slot k once, from its slot k-1 and a slot of another stream that an event
// makes safe to read. The slots are not atomic: a missing dependency is a data race.
struct Node {
  uint64_t* out;
  const uint64_t* previous;
  const uint64_t* other;
};

orError_t run_node(void* args, char*, size_t) {
  const Node& node = *static_cast<const Node*>(args);
  *node.out = mix(node.previous ? *node.previous : 1, node.other ? *node.other : 2);
  return orSuccess;
}

const orKernel kNode = {"node", &run_node, nullptr};

struct Lane {
  Lane(int device_index, int steps)
      : device(device_index), stream(device_index), event(device_index, orEventDisableTiming) {
    memory = allocate(sizeof(uint64_t) * steps, device);
    view = kernel_view<uint64_t>(memory, device);
    expected.reserve(steps);
  }
  int device;
  Stream stream;
  std::mutex mutex;  // guards the members below; other threads wait on `event`
  Event event;
  int recorded = -1;  // the step that the event's latest record covers
  std::vector<uint64_t> expected;
  void* memory;
  uint64_t* view;
};

void submit(std::vector<std::unique_ptr<Lane>>& lanes, int mine, std::mt19937& random) {
  Lane& lane = *lanes[mine];
  Node node = {};
  uint64_t other_value = 2;
  if (random() % 2) {
    const int other = static_cast<int>(random() % kStreams);
    Lane& from = *lanes[other];
    std::lock_guard lock(from.mutex);
    if (other != mine && from.recorded >= 0) {
      EXPECT_OK(orStreamWaitEvent(lane.stream, from.event));
      node.other = from.view + from.recorded;
      other_value = from.expected[from.recorded];
    }
  }
  std::lock_guard lock(lane.mutex);
  const size_t step = lane.expected.size();
  node.out = lane.view + step;
  node.previous = step ? lane.view + step - 1 : nullptr;
  lane.expected.push_back(mix(step ? lane.expected[step - 1] : 1, other_value));
  if (random() % 4 == 0) {
    EXPECT_OK(orRunKernel(lane.stream, &kNode, &node));
  } else {
    EXPECT_OK(orLaunchKernel(lane.stream, &kNode, &node, sizeof(node)));
  }
  if (random() % 2) {
    if (random() % 8 == 0) lane.event = Event(lane.device, orEventDisableTiming);
    EXPECT_OK(orEventRecord(lane.event, lane.stream));
    lane.recorded = static_cast<int>(step);
  }
}

void disturb(Lane& lane, std::mt19937& random) {
  switch (random() % 40) {
    case 0:
      EXPECT_OK(orStreamSynchronize(lane.stream));
      break;
    case 1: {
      void* memory = allocate(1 + random() % 100000, lane.device);
      if (random() % 4 == 0) EXPECT_OK(orMemset(memory, 1, 1));
      EXPECT_OK(orFree(memory));
      break;
    }
    case 2:
      (void)orStreamQuery(lane.stream);
      break;
    case 3: {
      Stream passing(lane.device);
      EXPECT_OK(launch(passing, [] {}));
      break;
    }
    case 4:
      EXPECT_OK(orSetDevice(lane.device));
      EXPECT_OK(orDeviceSynchronize());
      break;
    default:
      break;
  }
}

class Stress : public ::testing::TestWithParam<orSchedule> {};

}  // namespace

TEST_P(Stress, RandomDependencies) {
  const char* factor = std::getenv("OPENREG_STRESS");
  const int steps = (kThreadSanitizer ? 60 : 300) * (factor ? std::max(1, std::atoi(factor)) : 1);
  Schedule schedule(GetParam(), 1234);
  std::vector<std::unique_ptr<Lane>> lanes;
  for (int i = 0; i < kStreams; ++i) lanes.push_back(std::make_unique<Lane>(i % kDevices, steps));
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      std::mt19937 random(t * 7919 + 13);
      for (int step = 0; step < steps; ++step) {
        for (int mine = t; mine < kStreams; mine += kThreads) {
          submit(lanes, mine, random);
          disturb(*lanes[mine], random);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (int device = 0; device < kDevices; ++device) {
    ASSERT_OK(orSetDevice(device));
    ASSERT_OK(orDeviceSynchronize());
  }
  ASSERT_OK(orSetDevice(0));
  for (const auto& lane : lanes) {
    std::vector<uint64_t> actual(lane->expected.size());
    ASSERT_OK(orMemcpy(actual.data(), lane->memory, actual.size() * sizeof(uint64_t), orMemcpyDeviceToHost));
    EXPECT_EQ(actual, lane->expected);
    EXPECT_OK(orFree(lane->memory));
  }
}

INSTANTIATE_TEST_SUITE_P(Schedules, Stress,
                         ::testing::Values(orScheduleAsync, orScheduleBlocking, orScheduleAdversarial),
                         [](const auto& info) -> std::string {
                           if (info.param == orScheduleAsync) return "async";
                           return info.param == orScheduleBlocking ? "blocking" : "adversarial";
                         });
