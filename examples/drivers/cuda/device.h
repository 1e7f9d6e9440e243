// Devices: the GPUs that the process sees, their properties, and their contexts.
//
// Thread safety: all functions may be called from any thread. `mutex` of a Device guards its fields.
#pragma once

#include "cuda_api.h"
#include "error.h"

#include <memory>
#include <mutex>
#include <vector>

namespace nv {

class Stream;
class Graph;
class Workspace;

inline constexpr uint64_t kCapabilities =
    OR_CAP_PEER_COPY | OR_CAP_TIMING | OR_CAP_PRIORITIES | OR_CAP_DEVICE_CODE | OR_CAP_IPC;
inline constexpr size_t kGranularity = 256;  // CUDA aligns every allocation to it
inline constexpr int kLeastPriority = 0;     // CUDA clamps priorities to the range of the GPU
inline constexpr int kGreatestPriority = -5;

struct Device {
  int index = 0;
  int gpu = 0;  // the index of CUDA
  CUdevice native = 0;
  CUcontext context = nullptr;  // set while the device is open; does not change then
  int processors = 0;           // streaming multiprocessors
  int arch = 0;                 // 90 for compute capability 9.0
  size_t memory = 0;

  std::mutex mutex;  // guards everything below. No other lock is taken while it is held.
  int users = 0;     // of the context: device_open, pinned memory, and what is shared with other processes
  std::vector<std::shared_ptr<Stream>> streams;         // also destroyed ones, until their work is done
  std::vector<std::shared_ptr<Graph>> retired;          // destroyed graphs whose last launch may be running
  std::vector<CUmodule> unloaded;                       // modules whose functions may be running
  std::vector<std::shared_ptr<void>> unloaded_modules;  // the same, of this driver
  std::vector<CUevent> free_events[2];                  // with and without timing
  std::vector<std::shared_ptr<Workspace>> free_workspaces;
};

orError_t count_devices(int* count);
/// The device, which is in range.
Device& device_at(int index);

/// Retains the context of the device, and releases it.
orError_t open_context(Device& device);
orError_t close_context(Device& device);

/// Makes the device's context current on this thread, for a scope. torch.cuda uses the same contexts, so that
/// with one GPU there is nothing to change. On a thread without a context it stays current, as CUDA's runtime
/// does.
class Current {
 public:
  explicit Current(const Device& device) {
    static_cast<void>(cuda.context_get(&previous_));
    if (previous_ == device.context) return;
    restore_ = previous_ != nullptr;
    static_cast<void>(cuda.context_set(device.context));
  }
  ~Current() {
    if (restore_) static_cast<void>(cuda.context_set(previous_));
  }
  Current(const Current&) = delete;
  Current& operator=(const Current&) = delete;

 private:
  CUcontext previous_ = nullptr;
  bool restore_ = false;
};

/// Frees what destroyed streams, graphs and modules of the device have left, if their work is done.
void reap(Device& device);

// Entries of the table.
orError_t init(const orHost* host);
orError_t device_properties(int index, orDeviceProperties* properties);
orError_t device_open(int index);
orError_t device_close(int index);
orError_t device_synchronize(int index);
orError_t device_drain(int index);
orError_t device_native_handle(int index, void** handle);

}  // namespace nv
