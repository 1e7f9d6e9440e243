// Memory and handles of libraries, for the work of one stream. A captured stream has a workspace of its own,
// which the graph keeps: its launches may run beside other work.
#pragma once

#include "device.h"

#include <memory>

namespace nv {

class Workspace {
 public:
  /// One that is free, or a new one.
  static std::shared_ptr<Workspace> take(Device& device, CUstream stream);
  /// The work that used it is done.
  static void put_back(std::shared_ptr<Workspace> workspace);
  explicit Workspace(Device& device) : device_(device) {}
  ~Workspace();
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  /// cuBLAS on the stream.
  orError_t blas(const Cublas*& library, cublasHandle_t& handle);
  /// kScratch bytes for reductions.
  orError_t scratch(void*& memory);
  /// Creates all parts. An error is reported when the part is used.
  void prepare();

  static constexpr size_t kScratch = size_t{1} << 20;

 private:
  Device& device_;
  CUstream stream_ = nullptr;
  cublasHandle_t handle_ = nullptr;
  bool bound_ = false;  // the handle uses stream_
  CUdeviceptr blas_memory_ = 0;
  CUdeviceptr scratch_ = 0;
};

}  // namespace nv
