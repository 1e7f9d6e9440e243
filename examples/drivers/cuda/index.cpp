// Gather and scatter_add. The kernel is in kernels/index.cu.
//
// Note [Failures on the GPU]
// An index out of range fails the function, as Note [Failed kernels] in openreg.h says: the kernel writes to
// pinned memory of the stream, and the next synchronization finds it. CUDA cannot drop the work behind it,
// which runs.
//
// Another chip: if a kernel can stop its queue, do that.
#include "function.h"
#include "openreg/kernel_library.h"

#include <bit>

namespace nv {
namespace {

// As in kernels/index.cu.
struct IndexArgs {
  const void* index;
  void* dense;
  void* indexed;
  int64_t indexed_size, indexed_stride;
  uint64_t count;
  uint64_t* failure;
  const char* name;
  uint32_t dims;
  int64_t sizes[OR_KERNEL_DIMS];
  int64_t strides[OR_KERNEL_DIMS][3];
};

struct IndexLaunch {
  CUfunction function;
  unsigned grid;
  IndexArgs args;

  orError_t operator()(Stream& stream) const {
    IndexArgs used = args;
    const auto& words = stream.failure_words();
    if (!words) return fail(orErrorOutOfHostMemory, "no pinned memory for the failures of a stream");
    used.failure = words->words();
    void* parameters[] = {&used};
    return NV_CALL(launch, function, grid, 1u, 1u, kBlock, 1u, 1u, 0u, stream.native(), parameters, nullptr);
  }
};

class Index final : public Function {
 public:
  Index(Device& device, const std::string& name, std::vector<std::string> defines)
      : Function(name), device_(device), program_(device, {kIndexSource, std::move(defines)}) {}
  const Source* source() const override { return &program_.source(); }

  orError_t launch(Stream& stream, const orLaunchConfig&, const void* args, size_t,
                   const orObserver* observer) override {
    const auto& given = *static_cast<const orIndexArgs*>(args);
    if (!ready_.load(std::memory_order_acquire)) [[unlikely]]
      NV_RETURN_IF_ERROR(prepare());
    IndexLaunch launch{run_, 1, {}};
    IndexArgs& into = launch.args;
    into.index = given.index;
    into.dense = given.dense;
    into.indexed = given.indexed;
    into.indexed_size = given.indexed_size;
    into.indexed_stride = given.indexed_stride;
    into.name = name();
    into.dims = given.dims;
    into.count = 1;
    for (uint32_t dim = 0; dim < given.dims; ++dim) {
      into.sizes[dim] = given.sizes[dim];
      into.count *= static_cast<uint64_t>(given.sizes[dim]);
      into.strides[dim][0] = given.index_strides[dim];
      into.strides[dim][1] = given.dense_strides[dim];
      into.strides[dim][2] = given.indexed_strides[dim];
    }
    if (into.count == 0) return orSuccess;
    launch.grid = blocks_for(device_, into.count);
    return stream.submit(launch, info(), observer);
  }

 private:
  orError_t prepare() {
    const Current current(device_);
    const std::lock_guard lock(mutex_);
    NV_RETURN_IF_ERROR(program_.load());
    NV_RETURN_IF_ERROR(program_.find("run", run_));
    ready_.store(true, std::memory_order_release);
    return orSuccess;
  }

  Device& device_;
  Program program_;
  std::atomic<bool> ready_{false};
  std::mutex mutex_;  // guards run_ until ready_
  CUfunction run_ = nullptr;
};

}  // namespace

std::unique_ptr<Function> make_index(Device& device, const std::string& name, bool scatter,
                                     const Dtype& dtype) {
  return std::make_unique<Index>(device, name,
                                 std::vector<std::string>{"IN=" + std::string(dtype.type),
                                                          std::string("SCATTER=") + (scatter ? "1" : "0")});
}

}  // namespace nv
