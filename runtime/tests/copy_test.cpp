#include "support.h"

#include <cstring>
#include <numeric>
#include <vector>

using namespace support;

namespace {

std::vector<unsigned char> pattern(size_t size, unsigned salt = 0) {
  std::vector<unsigned char> bytes(size);
  for (size_t i = 0; i < size; ++i) bytes[i] = static_cast<unsigned char>(i * 31 + salt);
  return bytes;
}

}  // namespace

TEST(Copy, RoundTripsAllSizes) {
  for (const size_t size : {size_t{1}, size_t{511}, size_t{65536}, size_t{65537}, size_t{3} << 20}) {
    const auto source = pattern(size);
    std::vector<unsigned char> result(size);
    void* a = allocate(size);
    void* b = allocate(size, 1);
    ASSERT_OK(orMemcpy(a, source.data(), size, orMemcpyHostToDevice));
    ASSERT_OK(orMemcpyPeer(b, 1, a, 0, size));
    ASSERT_OK(orMemcpy(result.data(), b, size, orMemcpyDefault));
    EXPECT_EQ(source, result);
    EXPECT_OK(orFree(a));
    EXPECT_OK(orFree(b));
  }
}

TEST(Copy, PageableSourceIsReusableAfterTheCall) {
  for (const size_t size : {size_t{100}, size_t{64} * 1024, size_t{64} * 1024 + 1, size_t{1} << 20}) {
    Stream stream;
    const auto expected = pattern(size, 3);
    auto source = expected;
    std::vector<unsigned char> result(size);
    void* memory = allocate(size);
    Gate gate;
    // Only copies up to 64 KiB are snapshotted and can be queued behind the gate. Larger ones synchronize.
    if (size <= 64 * 1024) ASSERT_OK(launch(stream, [&] { gate.wait(); }));
    ASSERT_OK(orMemcpyAsync(memory, source.data(), size, orMemcpyHostToDevice, stream));
    std::fill(source.begin(), source.end(), 0xee);
    if (size <= 64 * 1024) EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
    gate.open();
    ASSERT_OK(orMemcpyAsync(result.data(), memory, size, orMemcpyDeviceToHost, stream));
    EXPECT_EQ(result, expected);
    EXPECT_OK(orFree(memory));
  }
}

TEST(Copy, PinnedMemoryIsAsynchronous) {
  constexpr size_t kSize = 1 << 20;
  Stream stream;
  void* memory = allocate(kSize);
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, kSize));
  std::memset(pinned, 1, kSize);
  Gate gate;
  ASSERT_OK(launch(stream, [&] { gate.wait(); }));
  ASSERT_OK(orMemcpyAsync(memory, pinned, kSize, orMemcpyHostToDevice, stream));
  ASSERT_OK(orMemsetAsync(memory, 9, kSize / 2, stream));
  ASSERT_OK(orMemcpyAsync(pinned, memory, kSize, orMemcpyDeviceToHost, stream));
  EXPECT_EQ(orStreamQuery(stream), orErrorNotReady);
  gate.open();
  ASSERT_OK(orStreamSynchronize(stream));
  EXPECT_EQ(static_cast<char*>(pinned)[0], 9);
  EXPECT_EQ(static_cast<char*>(pinned)[kSize - 1], 1);
  EXPECT_OK(orFreeHost(pinned));
  EXPECT_OK(orFree(memory));
}

TEST(Copy, HostToHostIsInStreamOrder) {
  Stream stream;
  std::vector<unsigned char> a(1000, 1), b(1000, 2);
  ASSERT_OK(launch(stream, [&] { a[0] = 7; }));
  ASSERT_OK(orMemcpyAsync(b.data(), a.data(), a.size(), orMemcpyHostToHost, stream));
  EXPECT_EQ(b[0], 7);
  EXPECT_EQ(b[999], 1);
  ASSERT_OK(orMemcpy(a.data() + 1, b.data(), 10, orMemcpyDefault));
  EXPECT_EQ(a[1], 7);
}

TEST(Copy, KindMustMatchThePointers) {
  void* device = allocate(64);
  char host[64] = {};
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(device, host, 64, orMemcpyDeviceToHost), "the source");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(device, host, 64, orMemcpyDeviceToHost), "pageable host memory");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(host, device, 64, orMemcpyHostToHost), "device memory");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(device, host, 64, orMemcpyDeviceToDevice), "device to device");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpyAsync(device, host, 64, static_cast<orMemcpyKind>(9), nullptr),
               "9");
  EXPECT_OK(orMemcpy(device, host, 64, orMemcpyHostToDevice));
  EXPECT_OK(orFree(device));
}

TEST(Copy, BoundsAreChecked) {
  auto* device = static_cast<char*>(allocate(1000));
  std::vector<char> host(4000);
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(device, host.data(), 1001, orMemcpyDefault),
               "1001 bytes from offset 0");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(host.data(), device + 990, 11, orMemcpyDefault),
               "allocation of 1000");
  EXPECT_FAILS(orErrorInvalidValue, orMemset(device, 0, SIZE_MAX), "exceed");
  EXPECT_FAILS(orErrorInvalidPointer, orMemcpy(host.data(), device + 1000, 1, orMemcpyDefault),
               "device memory");
  EXPECT_OK(orMemcpy(host.data(), device + 990, 10, orMemcpyDefault));
  void* pinned = nullptr;
  ASSERT_OK(orMallocHost(&pinned, 100));
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(device, pinned, 101, orMemcpyDefault),
               "source's allocation of 100");
  EXPECT_OK(orFreeHost(pinned));
  EXPECT_OK(orFree(device));
}

TEST(Copy, FreedMemoryIsRefusedAndNotAccessed) {
  void* device = allocate(4096);
  char host[16] = {};
  EXPECT_OK(orFree(device));
  EXPECT_FAILS(orErrorInvalidPointer, orMemcpy(device, host, 16, orMemcpyHostToDevice), "freed");
  EXPECT_FAILS(orErrorInvalidPointer, orMemcpy(host, device, 16, orMemcpyDefault), "freed");
  EXPECT_FAILS(orErrorInvalidPointer, orMemset(device, 1, 16), "freed");
  EXPECT_FAILS(orErrorInvalidPointer, orMemset(host, 1, 16), "pageable host memory");
}

TEST(Copy, ZeroByteCopiesAreNoOps) {
  EXPECT_OK(orMemcpy(nullptr, nullptr, 0, orMemcpyDefault));
  EXPECT_OK(orMemcpyAsync(nullptr, nullptr, 0, orMemcpyHostToDevice, nullptr));
  EXPECT_OK(orMemset(nullptr, 0, 0));
  EXPECT_OK(orMemsetAsync(nullptr, 0, 0, nullptr));
  EXPECT_OK(orMemcpyPeer(nullptr, 0, nullptr, 1, 0));
  char host[1] = {};
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(nullptr, host, 1, orMemcpyDefault), "destination is NULL");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpy(host, nullptr, 1, orMemcpyDefault), "source is NULL");
}

TEST(Copy, PeerCopiesCheckPointersAndStream) {
  void* a = allocate(512, 0);
  void* b = allocate(512, 1);
  char host[512] = {};
  Stream on_a(0), on_b(1);
  EXPECT_OK(orMemcpyPeerAsync(b, 1, a, 0, 512, on_a));
  EXPECT_OK(orStreamSynchronize(on_a));
  EXPECT_OK(orMemcpyPeerAsync(b, 1, a, 0, 512, on_b));
  EXPECT_OK(orStreamSynchronize(on_b));
  EXPECT_OK(orMemcpyPeerAsync(a, 0, a, 0, 512, on_a));
  EXPECT_FAILS(orErrorInvalidValue, orMemcpyPeerAsync(a, 0, a, 0, 512, on_b), "stream belongs to device 1");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpyPeer(b, 0, a, 0, 512), "memory of device 1, not of device 0");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpyPeer(b, 1, host, 0, 512), "pageable host memory");
  EXPECT_FAILS(orErrorInvalidDevice, orMemcpyPeer(b, 5, a, 0, 512), "5");
  EXPECT_FAILS(orErrorInvalidValue, orMemcpyAsync(b, host, 512, orMemcpyDefault, on_a),
               "stream belongs to device 0");
  EXPECT_OK(orMemcpyAsync(b, a, 512, orMemcpyDeviceToDevice, on_a));
  EXPECT_OK(orFree(a));
  EXPECT_OK(orFree(b));
}

TEST(Copy, FreeWaitsForPeerCopies) {
  constexpr size_t kSize = 4096;
  void* a = allocate(kSize, 0);
  void* b = allocate(kSize, 1);
  Stream stream(0);
  std::atomic<bool> ran{false};
  ASSERT_OK(launch(stream, [&] { ran.store(true); }));
  ASSERT_OK(orMemcpyPeerAsync(b, 1, a, 0, kSize, stream));
  EXPECT_OK(orFree(b));
  EXPECT_TRUE(ran.load());
  EXPECT_OK(orStreamQuery(stream));
  EXPECT_OK(orFree(a));
}

TEST(Copy, UsesTheDeviceOfThePointerNotTheCurrentDevice) {
  void* memory = allocate(256, 1);
  ASSERT_OK(orMemset(memory, 0x5a, 256));
  unsigned char host[256] = {};
  ASSERT_OK(orMemcpy(host, memory, 256, orMemcpyDeviceToHost));
  EXPECT_EQ(host[255], 0x5a);
  EXPECT_OK(orFree(memory));
}
