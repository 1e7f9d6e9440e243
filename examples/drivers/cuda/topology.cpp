// Another chip: a file in /sys or /proc, or an ioctl. device_count and device_properties are called in
// processes that never use the device, and before a fork; they should start no thread and create no context.
//
// CUDA has no such call: cuInit starts threads, and so does NVML. A child process calls it instead.
#include "topology.h"

#include "cuda_api.h"
#include "error.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <fcntl.h>
#include <memory>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace nv {
namespace {

constexpr size_t kMost = 64;
constexpr int kSeconds = 60;  // for CUDA to start; machines with many GPUs need some

// What the child writes, in one piece.
struct Answer {
  CUresult result;
  const char* call;  // a constant of this library, which has the same address in the parent
  unsigned count;
  struct {
    char name[96];
    size_t memory;
    int major, minor, processors;
  } gpus[kMost];
};

// In the child. Allocates no memory of its own and takes no lock that another thread of the parent could have
// held.
void ask_cuda(Answer& answer) {
  const auto failed = [&](const char* call, CUresult result) {
    answer.call = call;
    answer.result = result;
    return result != kSuccess;
  };
  int count = 0;
  const CUresult started = cuda.init(0);
  if (started == kErrorNoDevice) return;
  if (failed("cuInit", started) || failed("cuDeviceGetCount", cuda.device_count(&count))) return;
  for (int i = 0; i < std::min(count, static_cast<int>(kMost)); ++i) {
    CUdevice device = 0;
    auto& gpu = answer.gpus[i];
    if (failed("cuDeviceGet", cuda.device_get(&device, i)) ||
        failed("cuDeviceGetName", cuda.device_name(gpu.name, sizeof(gpu.name), device)) ||
        failed("cuDeviceTotalMem", cuda.device_memory(&gpu.memory, device)) ||
        failed("cuDeviceGetAttribute", cuda.device_attribute(&gpu.major, kAttributeMajor, device)) ||
        failed("cuDeviceGetAttribute", cuda.device_attribute(&gpu.minor, kAttributeMinor, device)) ||
        failed("cuDeviceGetAttribute",
               cuda.device_attribute(&gpu.processors, kAttributeProcessors, device))) {
      return;
    }
    answer.count = static_cast<unsigned>(i + 1);
  }
}

bool write_all(int file, const void* data, size_t size) {
  for (const char* at = static_cast<const char*>(data); size > 0;) {
    const ssize_t written = write(file, at, size);
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) at += written, size -= static_cast<size_t>(written);
  }
  return true;
}

bool read_all(int file, void* data, size_t size) {
  for (char* at = static_cast<char*>(data); size > 0;) {
    const ssize_t got = read(file, at, size);
    if (got == 0 || (got < 0 && errno != EINTR)) return false;
    if (got > 0) at += got, size -= static_cast<size_t>(got);
  }
  return true;
}

// The child writes when CUDA has answered, or closes its end.
bool wait_readable(int file, int seconds) {
  pollfd end{file, POLLIN, 0};
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(seconds);
  for (;;) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    const int ready = poll(&end, 1, static_cast<int>(std::max<int64_t>(left.count(), 0)));
    if (ready >= 0 || errno != EINTR) return ready > 0;
  }
}

orError_t ask_in_a_child(Answer& answer) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return fail(orErrorSystem, "cannot create a pipe: error %d", errno);
  const pid_t child = fork();
  if (child < 0) {
    const int error = errno;
    close(ends[0]), close(ends[1]);
    return fail(orErrorSystem, "cannot start a process that asks CUDA for the GPUs: error %d", error);
  }
  if (child == 0) {
    ask_cuda(answer);
    _exit(write_all(ends[1], &answer, sizeof(answer)) ? 0 : 1);
  }
  close(ends[1]);
  const bool late = !wait_readable(ends[0], kSeconds);
  if (late) kill(child, SIGKILL);
  const bool answered = !late && read_all(ends[0], &answer, sizeof(answer));
  close(ends[0]);
  // A program that ignores or collects its children may have the status already.
  while (waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
  }
  if (answered) return orSuccess;
  if (late) {
    return fail(orErrorSystem,
                "CUDA did not start within %d seconds: look at `nvidia-smi` and at the kernel's log",
                kSeconds);
  }
  return fail(orErrorSystem, "the process that asks CUDA for the GPUs ended without an answer");
}

}  // namespace

orError_t find_gpus(std::vector<Gpu>& gpus) {
  const auto answer_memory = std::make_unique<Answer>();
  Answer& answer = *answer_memory;
  int count = 0;
  if (cuda.device_count(&count) == kErrorNotInitialized) {
    NV_RETURN_IF_ERROR(ask_in_a_child(answer));
  } else {
    ask_cuda(answer);  // the program uses CUDA already; a child could not
  }
  if (answer.result != kSuccess) return fail_cuda(answer.result, answer.call);
  for (unsigned i = 0; i < answer.count; ++i) {
    const auto& gpu = answer.gpus[i];
    gpus.push_back({gpu.name, gpu.memory, gpu.major, gpu.minor, gpu.processors});
  }
  return orSuccess;
}

}  // namespace nv
