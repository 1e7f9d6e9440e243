// Tests of fault injection, openreg/faults.h.
#include "support.h"

#include <openreg/faults.h>

#include <chrono>
#include <cstring>
#include <map>
#include <set>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

using namespace support;

namespace {

orFaultRule rule_for(const char* call, orFaultAction action) {
  orFaultRule rule = orFaultRuleDefault();
  rule.call = call;
  rule.action = action;
  return rule;
}

orFaultRule error_rule(const char* call, orError_t code) {
  orFaultRule rule = rule_for(call, orFaultActionError);
  rule.code = code;
  return rule;
}

/// A set of rules for a scope.
class Faults {
 public:
  explicit Faults(std::vector<orFaultRule> rules) {
    EXPECT_OK(orFaultsAdd(rules.data(), rules.size(), &id_));
  }
  explicit Faults(const orFaultRule& rule) : Faults(std::vector{rule}) {}
  ~Faults() {
    if (id_) EXPECT_OK(orFaultsRemove(id_));
  }
  Faults(const Faults&) = delete;
  Faults& operator=(const Faults&) = delete;

  uint64_t matched(size_t rule = 0) const { return counts(rule).first; }
  uint64_t fired(size_t rule = 0) const { return counts(rule).second; }
  uint64_t id() const { return id_; }

 private:
  std::pair<uint64_t, uint64_t> counts(size_t rule) const {
    uint64_t matched = 0, fired = 0;
    EXPECT_OK(orFaultsGetCounts(id_, rule, &matched, &fired));
    return {matched, fired};
  }
  uint64_t id_ = 0;
};

/// Allocates and frees; returns the code of the allocation.
orError_t allocate_once(size_t size = 4096) {
  void* pointer = nullptr;
  const orError_t error = orMalloc(&pointer, size);
  if (!error) EXPECT_OK(orFree(pointer));
  return error;
}

/// The numbers of the calls, from 1, that fail.
std::vector<int> failing_calls(const orFaultRule& rule, int calls) {
  const Faults faults(rule);
  std::vector<int> failing;
  for (int i = 1; i <= calls; ++i) {
    if (allocate_once()) failing.push_back(i);
  }
  EXPECT_EQ(faults.matched(), static_cast<uint64_t>(calls));
  EXPECT_EQ(faults.fired(), failing.size());
  return failing;
}

class DeviceMemory {
 public:
  explicit DeviceMemory(size_t size, int device = 0) : pointer_(allocate(size, device)) {}
  ~DeviceMemory() { EXPECT_OK(orFree(pointer_)); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  operator void*() const { return pointer_; }

 private:
  void* pointer_;
};

class PinnedMemory {
 public:
  explicit PinnedMemory(size_t size) { EXPECT_OK(orMallocHost(&pointer_, size)); }
  ~PinnedMemory() { EXPECT_OK(orFreeHost(pointer_)); }
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;
  unsigned char* bytes() const { return static_cast<unsigned char*>(pointer_); }

 private:
  void* pointer_ = nullptr;
};

/// The positions of the bits that differ from `expected`.
std::vector<size_t> flipped_bits(const unsigned char* bytes, size_t size, unsigned char expected) {
  std::vector<size_t> bits;
  for (size_t i = 0; i < size * 8; ++i) {
    if ((bytes[i / 8] ^ expected) >> (i % 8) & 1) bits.push_back(i);
  }
  return bits;
}

std::vector<size_t> flipped_on_device(void* pointer, size_t size, unsigned char expected) {
  std::vector<unsigned char> bytes(size);
  EXPECT_OK(orMemcpy(bytes.data(), pointer, size, orMemcpyDeviceToHost));
  return flipped_bits(bytes.data(), size, expected);
}

}  // namespace

// ---- Codes

// A call with which each code is plausible. A new code needs a line here.
const std::map<orError_t, const char*> kCallOfCode = {
    {orErrorInvalidValue, "orMemcpyAsync"},
    {orErrorInvalidDevice, "orSetDevice"},
    {orErrorInvalidPointer, "orFree"},
    {orErrorInvalidHandle, "orEventRecord"},
    {orErrorNotSupported, "orEventCreate"},
    {orErrorNotReady, "orStreamQuery"},
    {orErrorOutOfMemory, "orMalloc"},
    {orErrorOutOfHostMemory, "orMallocHost"},
    {orErrorKernelFailed, "orStreamSynchronize"},
    {orErrorSystem, "orStreamCreate"},
    {orErrorForked, "orMalloc"},
    {orErrorDeviceLost, "orDeviceSynchronize"},
    {orErrorNotPermitted, "orDeviceReset"},
    {orErrorDriver, "orMalloc"},
    {orErrorCapture, "orStreamBeginCapture"},
    {orErrorCaptureInvalidated, "orStreamEndCapture"},
};

orError_t call_by_name(const std::string& name) {
  if (name == "orMemcpyAsync") {
    const DeviceMemory memory(8);
    char host[8] = {};
    return orMemcpyAsync(memory, host, 8, orMemcpyDefault, nullptr);
  }
  if (name == "orSetDevice") return orSetDevice(0);
  if (name == "orFree") {
    void* pointer = allocate(64);
    const orError_t error = orFree(pointer);
    if (error) EXPECT_OK(orFree(pointer));  // the rule fires once
    return error;
  }
  if (name == "orEventRecord") {
    const Event event;
    return orEventRecord(event, nullptr);
  }
  if (name == "orEventCreate") {
    orEvent_t event;
    return orEventCreate(&event);
  }
  if (name == "orStreamQuery") return orStreamQuery(nullptr);
  if (name == "orMalloc") return allocate_once();
  if (name == "orMallocHost") {
    void* pointer;
    return orMallocHost(&pointer, 64);
  }
  if (name == "orStreamSynchronize") return orStreamSynchronize(nullptr);
  if (name == "orStreamCreate") {
    orStream_t stream;
    return orStreamCreate(&stream);
  }
  if (name == "orDeviceSynchronize") return orDeviceSynchronize();
  if (name == "orDeviceReset") return orDeviceReset();
  if (name == "orStreamBeginCapture") {
    const Stream stream;
    return orStreamBeginCapture(stream, orCaptureRelaxed);
  }
  if (name == "orStreamEndCapture") {
    const Stream stream;
    orGraph_t graph;
    return orStreamEndCapture(stream, &graph);
  }
  ADD_FAILURE() << "no call for " << name;
  return orSuccess;
}

TEST(Faults, EveryCodeIsReachedByARule) {
  std::vector<orError_t> codes;
#define OR_COLLECT(name, number, class_, text) codes.push_back(name);
  OR_ERRORS(OR_COLLECT)
#undef OR_COLLECT
  for (const orError_t code : codes) {
    if (code == orSuccess) continue;
    const auto call = kCallOfCode.find(code);
    ASSERT_NE(call, kCallOfCode.end()) << orGetErrorName(code) << " has no call that a rule fails with it";
    orFaultRule rule = error_rule(call->second, code);
    rule.times = 1;
    const Faults faults(rule);
    EXPECT_EQ(call_by_name(call->second), code) << call->second;
    EXPECT_EQ(std::string(orGetLastErrorMessage()),
              std::string(orGetErrorString(code)) + " (fault rule 0, match 1 of " + call->second + ")");
    EXPECT_EQ(faults.fired(), 1u);
    // As documented, orErrorNotReady is not recorded as an error.
    EXPECT_EQ(orGetLastError(), code == orErrorNotReady ? orSuccess : code);
  }
  EXPECT_OK(allocate_once());
}

TEST(Faults, MessageOfTheRule) {
  orFaultRule rule = error_rule("orMalloc", orErrorSystem);
  rule.message = "the cable is unplugged";
  const Faults faults({error_rule("orFree", orErrorSystem), rule});
  void* pointer;
  EXPECT_FAILS(orErrorSystem, orMalloc(&pointer, 64),
               "the cable is unplugged (fault rule 1, match 1 of orMalloc)");
}

// ---- Which calls

TEST(Faults, NumberOfTheCall) {
  orFaultRule rule = error_rule("orMalloc", orErrorOutOfMemory);
  EXPECT_EQ(failing_calls(rule, 3), (std::vector{1, 2, 3}));
  rule.nth = 3;
  EXPECT_EQ(failing_calls(rule, 7), (std::vector{3}));
  rule.nth = 0;
  rule.every = 3;
  EXPECT_EQ(failing_calls(rule, 9), (std::vector{3, 6, 9}));
  rule.times = 2;
  EXPECT_EQ(failing_calls(rule, 9), (std::vector{3, 6}));
}

TEST(Faults, ProbabilityFollowsFromTheSeed) {
  orFaultRule rule = error_rule("orMalloc", orErrorOutOfMemory);
  rule.probability = 0.25;
  rule.seed = 7;
  const std::vector<int> failing = failing_calls(rule, 400);
  EXPECT_GT(failing.size(), 50u);
  EXPECT_LT(failing.size(), 150u);
  EXPECT_EQ(failing_calls(rule, 400), failing);
  rule.seed = 8;
  EXPECT_NE(failing_calls(rule, 400), failing);
  rule.probability = 0.0;
  EXPECT_TRUE(failing_calls(rule, 100).empty());
}

TEST(Faults, PatternOfNames) {
  const Faults faults(
      {rule_for("orStream*", orFaultActionCount), rule_for("orStreamQuer?", orFaultActionCount)});
  const Stream stream;
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orDeviceSynchronize());
  EXPECT_EQ(faults.matched(0), 2u);  // orStreamCreateWithPriority, orStreamQuery
  EXPECT_EQ(faults.matched(1), 1u);
  EXPECT_EQ(faults.fired(0), 0u);
}

TEST(Faults, Size) {
  orFaultRule rule = error_rule("orMalloc", orErrorOutOfMemory);
  rule.min_size = 1000;
  rule.max_size = 2000;
  const Faults faults(rule);
  EXPECT_OK(allocate_once(999));
  EXPECT_EQ(allocate_once(1000), orErrorOutOfMemory);
  EXPECT_EQ(allocate_once(2000), orErrorOutOfMemory);
  EXPECT_OK(allocate_once(2001));
  EXPECT_EQ(faults.matched(), 2u);
}

TEST(Faults, DeviceAndStream) {
  const Stream a, b, elsewhere(1);
  orFaultRule by_device = error_rule("orStreamSynchronize", orErrorSystem);
  by_device.device = 1;
  orFaultRule by_stream = error_rule("orStreamSynchronize", orErrorSystem);
  by_stream.stream = static_cast<int64_t>(b.id());
  {
    const Faults faults(by_device);
    EXPECT_OK(orStreamSynchronize(a));
    EXPECT_EQ(orStreamSynchronize(elsewhere), orErrorSystem);
  }
  const Faults faults(by_stream);
  EXPECT_OK(orStreamSynchronize(a));
  EXPECT_OK(orStreamSynchronize(nullptr));
  EXPECT_EQ(orStreamSynchronize(b), orErrorSystem);
}

TEST(Faults, Kernel) {
  static const orKernel other = {"aten::add", [](void*, char*, size_t) { return orSuccess; }, nullptr};
  orFaultRule rule = error_rule("orLaunch*", orErrorSystem);
  rule.kernel = "aten::*";
  const Faults faults(rule);
  EXPECT_OK(launch(nullptr, [] {}));
  EXPECT_EQ(orLaunchKernel(nullptr, &other, nullptr, 0), orErrorSystem);
  EXPECT_OK(orDeviceSynchronize());
}

// Every rule counts, and the first that fires acts.
TEST(Faults, SetsApplyInOrder) {
  orFaultRule third = error_rule("orMalloc", orErrorOutOfMemory);
  third.nth = 3;
  const Faults outer(third);
  {
    const Faults inner(error_rule("orMalloc", orErrorSystem));
    EXPECT_EQ(allocate_once(), orErrorSystem);
    EXPECT_EQ(allocate_once(), orErrorSystem);
    EXPECT_EQ(allocate_once(), orErrorOutOfMemory);
    EXPECT_EQ(inner.matched(), 3u);
    EXPECT_EQ(inner.fired(), 2u);
  }
  EXPECT_OK(allocate_once());
  EXPECT_EQ(outer.matched(), 4u);
}

TEST(Faults, NamesOfTheFunctions) {
  std::set<std::string> names;
  for (size_t i = 0; const char* name = orFaultsGetCallName(i); ++i) names.insert(name);
  EXPECT_TRUE(names.count("orMalloc") && names.count("orLaunchFunction"));
  EXPECT_FALSE(names.count("orGetLastError"));
}

TEST(Faults, InvalidRulesAreRejected) {
  uint64_t id;
  const auto add = [&](orFaultRule rule) { return orFaultsAdd(&rule, 1, &id); };
  orFaultRule rule = error_rule("orMallok", orErrorSystem);
  EXPECT_FAILS(orErrorInvalidValue, add(rule), "'orMallok' matches no function");
  EXPECT_FAILS(orErrorInvalidValue, add(error_rule(nullptr, orErrorSystem)), "call is NULL");
  EXPECT_FAILS(orErrorInvalidValue, add(error_rule("orMalloc", orSuccess)), "0 is not the code of an error");
  EXPECT_FAILS(orErrorInvalidValue, add(error_rule("orMalloc", static_cast<orError_t>(999))),
               "999 is not the code");
  EXPECT_FAILS(orErrorInvalidValue, add(rule_for("orMalloc", orFaultActionKernelFailure)), "runs kernels");
  EXPECT_FAILS(orErrorInvalidValue, add(rule_for("orMemset", orFaultActionCorruptCopy)), "needs a copy");
  EXPECT_FAILS(orErrorInvalidValue, add(rule_for("orGetDevice", orFaultActionLoseDevice)), "uses a device");
  EXPECT_FAILS(orErrorInvalidValue, add(rule_for("*", static_cast<orFaultAction>(77))), "invalid action 77");
  rule = error_rule("orMalloc", orErrorSystem);
  rule.probability = 1.5;
  EXPECT_FAILS(orErrorInvalidValue, add(rule), "probability");
  rule = error_rule("orMalloc", orErrorSystem);
  rule.struct_size = 4;
  EXPECT_FAILS(orErrorInvalidValue, add(rule), "struct_size is 4");
  rule = error_rule("orMalloc", orErrorSystem);
  rule.min_size = 2;
  rule.max_size = 1;
  EXPECT_FAILS(orErrorInvalidValue, add(rule), "min_size");
  EXPECT_FAILS(orErrorInvalidValue, orFaultsRemove(987654), "no set 987654");
  uint64_t matched, fired;
  EXPECT_FAILS(orErrorInvalidValue, orFaultsGetCounts(987654, 0, &matched, &fired), "no set 987654");
  EXPECT_FAILS(orErrorInvalidValue, orFaultsAdd(nullptr, 1, &id), "rules is NULL");
  EXPECT_OK(allocate_once());
}

// ---- Delays and hangs

TEST(Faults, WorkOfAStreamIsLate) {
  using namespace std::chrono;
  const Stream stream, other;
  orFaultRule rule = rule_for("orLaunchKernel", orFaultActionDelay);
  rule.delay_ns = 50'000'000;
  rule.nth = 1;
  const Faults faults(rule);
  const auto begin = steady_clock::now();
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(stream, [&] { ran.store(true); }));
  EXPECT_OK(run(other, [] {}));  // other streams are not late
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(ran.load());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
}

TEST(Faults, CallIsLate) {
  using namespace std::chrono;
  orFaultRule rule = rule_for("orMalloc", orFaultActionDelay);
  rule.delay_ns = 20'000'000;
  const Faults faults(rule);
  const auto begin = steady_clock::now();
  EXPECT_OK(allocate_once());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(20));
}

TEST(Faults, StreamHangsUntilReleased) {
  const Stream stream, other;
  orFaultRule rule = rule_for("orMemsetAsync", orFaultActionHang);
  rule.nth = 1;
  const DeviceMemory memory(64);
  const Faults faults(rule);
  ASSERT_OK(orMemsetAsync(memory, 1, 64, stream));
  ASSERT_OK(launch(stream, [] {}));
  EXPECT_OK(run(other, [] {}));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_OK(orFaultsRelease(0));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_TRUE(flipped_on_device(memory, 64, 1).empty());
}

TEST(Faults, CallHangsUntilTheSetIsRemoved) {
  std::atomic<bool> returned{false};
  std::thread caller;
  {
    const Faults faults(rule_for("orMalloc", orFaultActionHang));
    caller = std::thread([&] {
      EXPECT_OK(allocate_once());
      returned.store(true);
    });
    while (faults.fired() == 0) std::this_thread::yield();
    EXPECT_FALSE(returned.load());
  }
  caller.join();
  EXPECT_TRUE(returned.load());
}

// Removing one set does not release what another set holds.
TEST(Faults, SetsHoldSeparately) {
  const Stream stream;
  const Faults keeps(rule_for("orLaunchKernel", orFaultActionHang));
  ASSERT_OK(launch(stream, [] {}));
  { const Faults other(rule_for("orMalloc", orFaultActionCount)); }
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  EXPECT_OK(orFaultsRelease(0));
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(FaultsDeathTest, ProcessEndsWhileAStreamHangs) {
  in_fresh_process([] {
    uint64_t id;
    const orFaultRule rule = rule_for("orLaunchKernel", orFaultActionHang);
    EXPECT_OK(orFaultsAdd(&rule, 1, &id));
    EXPECT_OK(launch(nullptr, [] {}));
  });
}

TEST(FaultsDeathTest, NoHangAfterTheLastRelease) {
  in_fresh_process([] {
    uint64_t id;
    const orFaultRule rule = rule_for("orLaunchKernel", orFaultActionHang);
    EXPECT_OK(orFaultsAdd(&rule, 1, &id));
    EXPECT_OK(launch(nullptr, [] {}));
    EXPECT_OK(orFaultsRelease(1));
    EXPECT_OK(launch(nullptr, [] {}));
    EXPECT_OK(orDeviceSynchronize());
  });
}

// ---- Failed kernels

TEST(Faults, KernelFails) {
  const Stream stream;
  orFaultRule rule = rule_for("orLaunchKernel", orFaultActionKernelFailure);
  rule.nth = 2;
  rule.message = "illegal instruction";
  const Faults faults(rule);
  std::atomic<int> ran{0};
  for (int i = 0; i < 3; ++i) ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream),
               "illegal instruction (fault rule 0, match 2 of orLaunchKernel)");
  EXPECT_EQ(ran.load(), 1);
  ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
  EXPECT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(ran.load(), 2);
}

TEST(Faults, NameOfTheFailedKernel) {
  const Faults faults(rule_for("orLaunchKernel", orFaultActionKernelFailure));
  ASSERT_OK(launch(nullptr, [] {}));
  EXPECT_FAILS(orErrorKernelFailed, orDeviceSynchronize(), "'body'");
}

TEST(Faults, SynchronousKernelFails) {
  const Stream stream;
  orFaultRule rule = rule_for("orRunKernel", orFaultActionKernelFailure);
  rule.nth = 1;
  const Faults faults(rule);
  EXPECT_FAILS(orErrorKernelFailed, run(stream, [] {}), "(fault rule 0, match 1 of orRunKernel)");
  EXPECT_OK(run(stream, [] {}));
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Faults, CopyAndFillFail) {
  const DeviceMemory memory(64);
  std::vector<char> host(64);
  const Faults faults(rule_for("orMem*", orFaultActionKernelFailure));
  EXPECT_FAILS(orErrorKernelFailed, orMemcpy(memory, host.data(), 64, orMemcpyDefault), "of orMemcpy");
  EXPECT_FAILS(orErrorKernelFailed, orMemset(memory, 0, 64), "of orMemset");
  EXPECT_OK(orMemsetAsync(memory, 0, 64, nullptr));
  EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(nullptr), "of orMemsetAsync");
  EXPECT_FAILS(orErrorKernelFailed, orMemcpyAsync(host.data(), memory, 64, orMemcpyDefault, nullptr),
               "of orMemcpyAsync");
}

TEST(Faults, EveryLaunchOfAGraphFails) {
  const Stream stream;
  std::atomic<int> ran{0};
  orGraph_t graph;
  {
    const Faults faults(rule_for("orLaunchKernel", orFaultActionKernelFailure));
    ASSERT_OK(orStreamBeginCapture(stream, orCaptureRelaxed));
    ASSERT_OK(launch(stream, [&] { ran.fetch_add(1); }));
    ASSERT_OK(orStreamEndCapture(stream, &graph));
  }
  for (int i = 0; i < 2; ++i) {
    ASSERT_OK(orGraphLaunch(graph, stream));
    EXPECT_FAILS(orErrorKernelFailed, orStreamSynchronize(stream), "match 1 of orLaunchKernel");
  }
  EXPECT_EQ(ran.load(), 0);
  EXPECT_OK(orGraphDestroy(graph));
}

// ---- Corrupted copies

TEST(Faults, CopiesAreCorrupted) {
  constexpr size_t kSize = 1000;
  const Stream stream;
  const DeviceMemory memory(kSize), second(kSize);
  const PinnedMemory pinned(kSize), pinned_result(kSize);
  std::vector<unsigned char> pageable(kSize, 0x55), result(kSize);
  std::memset(pinned.bytes(), 0x55, kSize);
  const std::vector<size_t> expected = {1234};
  orFaultRule rule = rule_for("orMemcpy*", orFaultActionCorruptCopy);
  rule.bit = 1234;
  rule.times = 1;

  {  // host to device, synchronous and asynchronous
    for (const unsigned char* source : {pageable.data(), pinned.bytes()}) {
      {
        const Faults faults(rule);
        EXPECT_OK(orMemcpy(memory, source, kSize, orMemcpyHostToDevice));
      }
      EXPECT_EQ(flipped_on_device(memory, kSize, 0x55), expected);
      {
        const Faults faults(rule);
        EXPECT_OK(orMemcpyAsync(memory, source, kSize, orMemcpyHostToDevice, stream));
        EXPECT_OK(orStreamSynchronize(stream));
      }
      EXPECT_EQ(flipped_on_device(memory, kSize, 0x55), expected);
    }
  }
  EXPECT_OK(orMemset(memory, 0x55, kSize));
  {  // device to device
    {
      const Faults faults(rule);
      EXPECT_OK(orMemcpyAsync(second, memory, kSize, orMemcpyDefault, stream));
      EXPECT_OK(orStreamSynchronize(stream));
    }
    EXPECT_EQ(flipped_on_device(second, kSize, 0x55), expected);
  }
  {  // device to host
    for (unsigned char* target : {result.data(), pinned_result.bytes()}) {
      std::memset(target, 0, kSize);
      const Faults faults(rule);
      EXPECT_OK(orMemcpyAsync(target, memory, kSize, orMemcpyDefault, stream));
      EXPECT_OK(orStreamSynchronize(stream));
      EXPECT_EQ(flipped_bits(target, kSize, 0x55), expected);
    }
    const Faults faults(rule);
    EXPECT_OK(orMemcpy(result.data(), memory, kSize, orMemcpyDefault));
    EXPECT_EQ(flipped_bits(result.data(), kSize, 0x55), expected);
  }
}

TEST(Faults, CopyBetweenDevicesIsCorrupted) {
  const DeviceMemory here(64), there(64, 1);
  orFaultRule rule = rule_for("orMemcpyPeer", orFaultActionCorruptCopy);
  rule.bit = 9;
  EXPECT_OK(orMemset(here, 0, 64));
  const Faults faults(rule);
  EXPECT_OK(orMemcpyPeer(there, 1, here, 0, 64));
  EXPECT_EQ(flipped_on_device(there, 64, 0), (std::vector<size_t>{9}));
}

TEST(Faults, CorruptedBitFollowsFromTheSeed) {
  std::vector<unsigned char> zeros(4096), result(4096);
  const DeviceMemory memory(4096);
  EXPECT_OK(orMemset(memory, 0, 4096));
  std::set<size_t> bits;
  for (const uint64_t seed : {1, 2, 3, 1, 2, 3}) {
    orFaultRule rule = rule_for("orMemcpy", orFaultActionCorruptCopy);
    rule.seed = seed;
    const Faults faults(rule);
    EXPECT_OK(orMemcpy(result.data(), memory, 4096, orMemcpyDefault));
    const std::vector<size_t> flipped = flipped_bits(result.data(), 4096, 0);
    ASSERT_EQ(flipped.size(), 1u);
    bits.insert(flipped[0]);
  }
  EXPECT_EQ(bits.size(), 3u);
}

// ---- Lost devices

TEST(Faults, LostDeviceRefusesCalls) {
  const Stream stream(1);
  const Event event(1);
  void* pointer = allocate(64, 1);
  orFaultRule rule = rule_for("orStreamSynchronize", orFaultActionLoseDevice);
  rule.device = 1;
  {
    const Faults faults(rule);
    EXPECT_FAILS(orErrorDeviceLost, orStreamSynchronize(stream), "match 1 of orStreamSynchronize");
  }
  const char* reason = "device 1 does not respond, since it was lost (fault rule 0, match 1 of";
  EXPECT_FAILS(orErrorDeviceLost, orStreamQuery(stream), reason);
  EXPECT_FAILS(orErrorDeviceLost, launch(stream, [] {}), reason);
  EXPECT_FAILS(orErrorDeviceLost, orFree(pointer), reason);
  EXPECT_FAILS(orErrorDeviceLost, orEventQuery(event), reason);
  { const Event destroyed(0); }
  EXPECT_OK(allocate_once());  // of device 0
  EXPECT_EQ(orGetErrorClass(orErrorDeviceLost), orClassDeviceLost);

  EXPECT_OK(orFaultsRestoreDevice(1));
  EXPECT_OK(orFree(pointer));
  EXPECT_OK(orStreamSynchronize(stream));
}

TEST(Faults, ObjectsOfALostDeviceCanBeDestroyed) {
  {
    const Stream stream;
    const Event event;
    orFaultRule rule = rule_for("orMalloc", orFaultActionLoseDevice);
    const Faults faults(rule);
    void* pointer;
    EXPECT_EQ(orMalloc(&pointer, 64), orErrorDeviceLost);
  }  // the destructors expect success
  EXPECT_EQ(allocate_once(), orErrorDeviceLost);
  EXPECT_OK(orFaultsRestoreDevice(0));
  EXPECT_OK(allocate_once());
}

TEST(Faults, ResetEndsTheLoss) {
  {
    const Faults faults(rule_for("orMalloc", orFaultActionLoseDevice));
    EXPECT_EQ(allocate_once(), orErrorDeviceLost);
  }
  EXPECT_OK(orDeviceReset());
  EXPECT_OK(allocate_once());
}

// ---- Hooks, processes

namespace {

std::vector<std::string> recorded;

}  // namespace

TEST(Faults, HooksNameTheLine) {
  orFaultHooks hooks = {};
  hooks.struct_size = sizeof(hooks);
  hooks.site = [](char* buffer, size_t size) { std::snprintf(buffer, size, "train.py:12"); };
  hooks.fired = [](const orFaultRecord* record) {
    recorded.push_back(std::string(record->call) + " " + std::to_string(record->match) + " " + record->site +
                       " " + std::to_string(record->device));
  };
  ASSERT_OK(orFaultsSetHooks(&hooks));
  {
    const Faults faults(error_rule("orMalloc", orErrorSystem));
    void* pointer;
    EXPECT_FAILS(orErrorSystem, orMalloc(&pointer, 64),
                 "(fault rule 0, match 1 of orMalloc, at train.py:12)");
  }
  EXPECT_EQ(recorded, (std::vector<std::string>{"orMalloc 1 train.py:12 0"}));
  EXPECT_OK(orFaultsSetHooks(nullptr));
}

TEST(FaultsDeathTest, RulesBeforeTheRuntimeStarts) {
  in_fresh_process([] {
    const Faults faults(error_rule("orGetDeviceCount", orErrorSystem));
    int count;
    EXPECT_FAILS(orErrorSystem, orGetDeviceCount(&count), "fault rule 0");
  });
}

TEST(FaultsDeathTest, RulesApplyInAForkedChild) {
  in_fresh_process([] {
    const Faults faults(error_rule("orMalloc", orErrorSystem));
    int count;
    EXPECT_OK(orGetDeviceCount(&count));
    const pid_t child = fork();
    if (child == 0) _exit(allocate_once() == orErrorSystem ? 0 : 1);
    int status = -1;
    EXPECT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(faults.matched(), 0u);
  });
}

TEST(Faults, RulesChangeWhileOthersCall) {
  std::atomic<bool> stop{false};
  std::vector<std::thread> callers;
  for (int i = 0; i < 4; ++i) {
    callers.emplace_back([&] {
      while (!stop.load()) {
        const orError_t error = allocate_once();
        EXPECT_TRUE(error == orSuccess || error == orErrorOutOfMemory);
      }
    });
  }
  for (int i = 0; i < 200; ++i) {
    const Faults faults(error_rule("orMalloc", orErrorOutOfMemory));
    std::this_thread::yield();
  }
  stop.store(true);
  for (std::thread& caller : callers) caller.join();
  EXPECT_OK(allocate_once());
}
