// Stress test of the pool: several threads allocate and free blocks of mixed sizes. Checks the first and last
// bytes of each block, then all statistics and the free memory of the device. Run by `make stress`, and under
// the thread sanitizer by `make stress-tsan`.
//
//   pool_stress [total allocations = 10000000] [threads = 8] [streams = 1]
#include "device/device.h"
#include "memory/pool/pool.h"
#include "stream/stream.h"

#include <c10/util/Exception.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <thread>

namespace {

using openreg::Block;
using openreg::Pool;

constexpr size_t kKiB = 1024;
constexpr size_t kMiB = 1024 * kKiB;
constexpr size_t kLiveBytes = 256 * kMiB;  // per thread, approximately

char* bytes_of(const Block* block) {
  static const ptrdiff_t offset = [] {
    ptrdiff_t found = 0;
    TORCH_CHECK(orGetKernelViewOffset(&found, 0) == orSuccess);
    return found;
  }();
  return static_cast<char*>(block->ptr) + offset;
}

// Blocks that one thread passes to another, which frees them.
class Mailbox {
 public:
  void put(Block* block) {
    std::lock_guard<std::mutex> lock(mutex_);
    blocks_.push_back(block);
  }
  std::vector<Block*> take() {
    std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(blocks_, {});
  }

 private:
  std::mutex mutex_;  // guards blocks_
  std::vector<Block*> blocks_;
};

class Worker {
 public:
  Worker(Pool& pool, Mailbox& mailbox, int number, int streams)
      : pool_(pool),
        mailbox_(mailbox),
        random_(static_cast<uint32_t>(number)),
        stream_(streams == 1 ? 0 : 1 + number % streams) {}

  void work(size_t allocations) {
    for (size_t i = 0; i < allocations; ++i) {
      keep(pool_.allocate(size(), stream_));
      while (bytes_ > kLiveBytes || below(100) < 45) {
        if (live_.empty()) {
          break;
        }
        drop(below(live_.size()));
      }
      if (i % 64 == 0) {
        for (Block* block : mailbox_.take()) {
          check_and_free(block);
        }
      }
      if (i % 100'000 == 99'999) {
        pool_.empty_cache();
      }
    }
    while (!live_.empty()) {
      drop(live_.size() - 1);
    }
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }

  size_t size() {
    const size_t kind = below(1000);
    if (kind < 700) return 1 + below(64 * kKiB);
    if (kind < 930) return 64 * kKiB + below(900 * kKiB);
    if (kind < 995) return kMiB + below(6 * kMiB);
    return 10 * kMiB + below(6 * kMiB);
  }

  // Writes the address of the Block to both ends of its memory, to detect overlapping blocks.
  static void write_ends(Block* block) {
    char* bytes = bytes_of(block);
    std::memcpy(bytes, &block, sizeof(block));
    std::memcpy(bytes + block->size - sizeof(block), &block, sizeof(block));
  }
  static void check_ends(Block* block) {
    const char* bytes = bytes_of(block);
    TORCH_CHECK(std::memcmp(bytes, &block, sizeof(block)) == 0,
                "the first bytes of a block were overwritten");
    TORCH_CHECK(std::memcmp(bytes + block->size - sizeof(block), &block, sizeof(block)) == 0,
                "the last bytes of a block were overwritten");
  }

  void keep(Block* block) {
    write_ends(block);
    bytes_ += block->size;
    live_.push_back(block);
  }

  void drop(size_t index) {
    Block* block = std::exchange(live_[index], live_.back());
    live_.pop_back();
    bytes_ -= block->size;
    if (below(20) == 0) {
      mailbox_.put(block);
    } else {
      check_and_free(block);
    }
  }

  void check_and_free(Block* block) {
    check_ends(block);
    if (below(50) == 0) {
      pool_.record_stream(block, c10::Stream(c10::Stream::UNSAFE, c10::Device(openreg::kDevice, 0),
                                             1 + static_cast<c10::StreamId>(below(8))));
    }
    pool_.free(block);
  }

  Pool& pool_;
  Mailbox& mailbox_;
  std::mt19937 random_;
  const c10::StreamId stream_;
  std::vector<Block*> live_;
  size_t bytes_ = 0;
};

int64_t total(const openreg::StatArray& stat, int64_t c10::CachingAllocator::Stat::*member) {
  return stat[0].*member;
}

void run(size_t allocations, int threads, int streams) {
  using c10::CachingAllocator::Stat;
  auto* pool = new Pool(0, openreg::Settings{});
  Mailbox mailbox;
  std::atomic<bool> failed{false};
  const auto begin = std::chrono::steady_clock::now();
  std::vector<std::thread> running;
  for (int number = 0; number < threads; ++number) {
    running.emplace_back([&, number] {
      try {
        Worker(*pool, mailbox, number, streams).work(allocations / static_cast<size_t>(threads));
      } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        failed = true;
      }
    });
  }
  for (std::thread& thread : running) {
    thread.join();
  }
  TORCH_CHECK(!failed, "a thread failed");
  for (Block* block : mailbox.take()) {
    pool->free(block);
  }
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin;
  openreg::synchronize_device(0);
  pool->empty_cache();
  const openreg::DeviceStats stats = pool->stats();
  const auto live = static_cast<double>(total(stats.requested_bytes, &Stat::peak));
  const auto reserved = static_cast<double>(total(stats.reserved_bytes, &Stat::peak));
  std::printf(
      "%lld allocations, %d threads, %d streams: %.1f s, live peak %.1f MiB, reserved peak %.1f MiB, %.2fx\n",
      static_cast<long long>(total(stats.allocation, &Stat::allocated)), threads, streams, seconds.count(),
      live / kMiB, reserved / kMiB, reserved / live);
  for (const openreg::StatArray* stat :
       {&stats.allocation, &stats.active, &stats.segment, &stats.inactive_split}) {
    TORCH_CHECK(total(*stat, &Stat::current) == 0, "an allocation, segment or split block was leaked");
  }
  for (const openreg::StatArray* stat : {&stats.allocated_bytes, &stats.reserved_bytes, &stats.active_bytes,
                                         &stats.inactive_split_bytes, &stats.requested_bytes}) {
    TORCH_CHECK(total(*stat, &Stat::current) == 0, "bytes are in use after all blocks were freed");
    TORCH_CHECK(total(*stat, &Stat::allocated) == total(*stat, &Stat::freed),
                "allocated and freed bytes differ");
  }
  size_t free = 0;
  size_t all = 0;
  TORCH_CHECK(orMemGetInfo(&free, &all) == orSuccess && free == all, "device memory was leaked");
  TORCH_CHECK(stats.num_ooms == 0, "out of memory");
  // Streams do not share free blocks, so more streams reserve more memory, as on CUDA.
  TORCH_CHECK(streams > 1 || allocations < 1'000'000 || reserved <= 1.3 * live,
              "the reserved peak is more than 1.3 times the requested peak");
}

}  // namespace

int main(int argc, char** argv) {
  const size_t allocations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 10'000'000;
  const int threads = argc > 2 ? std::atoi(argv[2]) : 8;
  const int streams = argc > 3 ? std::atoi(argv[3]) : 1;
  try {
    run(allocations, threads, streams);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
  return 0;
}
