// Another chip: what its libraries need for each queue: a handle, scratch memory. Without libraries, nothing.
#include "workspace.h"

#include <bit>
#include <utility>

namespace nv {
namespace {

// The size that NVIDIA recommends for Hopper and later; older GPUs use a part of it.
constexpr size_t kBlasMemory = size_t{32} << 20;

}  // namespace

std::shared_ptr<Workspace> Workspace::take(Device& device, CUstream stream) {
  std::shared_ptr<Workspace> found;
  {
    const std::lock_guard lock(device.mutex);
    if (!device.free_workspaces.empty()) {
      found = std::move(device.free_workspaces.back());
      device.free_workspaces.pop_back();
    }
  }
  if (!found) found = std::make_shared<Workspace>(device);
  found->stream_ = stream;
  found->bound_ = false;
  return found;
}

void Workspace::put_back(std::shared_ptr<Workspace> workspace) {
  Device& device = workspace->device_;
  const std::lock_guard lock(device.mutex);
  device.free_workspaces.push_back(std::move(workspace));
}

Workspace::~Workspace() {
  const char* why = "";
  if (handle_) static_cast<void>(load_cublas(&why)->destroy(handle_));
  for (const CUdeviceptr memory : {blas_memory_, scratch_}) {
    if (memory) static_cast<void>(cuda.memory_free(memory));
  }
}

// cublasSetStream also resets the workspace, so that both are set, once.
orError_t Workspace::blas(const Cublas*& library, cublasHandle_t& handle) {
  const char* why = "";
  library = load_cublas(&why);
  if (!library) return fail(orErrorSystem, "%s", why);
  if (!blas_memory_) NV_RETURN_IF_ERROR(NV_CALL(memory_alloc, &blas_memory_, kBlasMemory));
  if (!handle_) {
    if (const int status = library->create(&handle_)) {
      return fail(orErrorSystem, "cublasCreate returned status %d", status);
    }
  }
  if (!bound_) {
    int status = library->set_stream(handle_, stream_);
    if (!status) status = library->set_workspace(handle_, std::bit_cast<void*>(blas_memory_), kBlasMemory);
    if (status) return fail(orErrorSystem, "cuBLAS returned status %d for its stream and workspace", status);
    bound_ = true;
  }
  handle = handle_;
  return orSuccess;
}

orError_t Workspace::scratch(void*& memory) {
  if (!scratch_) NV_RETURN_IF_ERROR(NV_CALL(memory_alloc, &scratch_, kScratch));
  memory = std::bit_cast<void*>(scratch_);
  return orSuccess;
}

void Workspace::prepare() {
  const Cublas* library = nullptr;
  cublasHandle_t handle = nullptr;
  void* memory = nullptr;
  static_cast<void>(blas(library, handle));
  static_cast<void>(scratch(memory));
}

}  // namespace nv
