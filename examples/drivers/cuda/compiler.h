// Compiles kernels with NVRTC, at the first use of a function.
#pragma once

#include "device.h"

#include <atomic>
#include <mutex>
#include <string>
#include <vector>

namespace nv {

/// A source of kernels/, and the macros that make it one function.
struct Source {
  const char* text;
  std::vector<std::string> defines;  // "NAME=value"
};

/// Compiles for the architecture, such as 90. The image can be loaded with cuModuleLoadData.
orError_t compile(const Source& source, int arch, std::string& image);

/// The kernels of one source, on one device.
class Program {
 public:
  Program(Device& device, Source source) : device_(device), source_(std::move(source)) {}
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  const Source& source() const { return source_; }
  /// Compiles and loads the program at the first call. The device's context is current.
  orError_t load() { return loaded_.load(std::memory_order_acquire) ? orSuccess : load_once(); }
  /// A kernel of the loaded program.
  orError_t find(const char* name, CUfunction& function) const;

 private:
  orError_t load_once();

  Device& device_;
  const Source source_;
  std::atomic<bool> loaded_{false};
  std::mutex mutex_;  // guards module_ until loaded_
  CUmodule module_ = nullptr;
};

// kernels/*.cu
extern const char* const kTypesSource;
extern const char* const kElementwiseSource;
extern const char* const kReduceSource;
extern const char* const kIndexSource;
extern const char* const kMatmulSource;

}  // namespace nv
