// Functions of the device: those of the kernel library (openreg/kernel_library.h), and those of images.
#pragma once

#include "compiler.h"
#include "stream.h"

#include <memory>
#include <string>
#include <vector>

namespace nv {

class Function {
 public:
  explicit Function(std::string name) : name_(std::move(name)) {}
  virtual ~Function() = default;
  Function(const Function&) = delete;
  Function& operator=(const Function&) = delete;
  const char* name() const { return name_.c_str(); }

  /// As stream_launch_function.
  virtual orError_t launch(Stream& stream, const orLaunchConfig& config, const void* args, size_t args_size,
                           const orObserver* observer) = 0;
  /// What NVRTC compiles for the function; NULL for images.
  virtual const Source* source() const { return nullptr; }

 protected:
  /// For the direct path, work that launches one kernel with one argument.
  template <typename Args>
  struct KernelLaunch {
    CUfunction function;
    unsigned grid;
    unsigned block;
    Args args;
    orError_t operator()(Stream& stream) const {
      void* parameters[] = {const_cast<Args*>(&args)};
      return NV_CALL(launch, function, grid, 1u, 1u, block, 1u, 1u, 0u, stream.native(), parameters, nullptr);
    }
  };
  WorkInfo info() const { return {orGraphNodeKernel, name()}; }

 private:
  const std::string name_;
};

/// Threads of a block of all kernels.
inline constexpr unsigned kBlock = 256;

/// Blocks for a loop over `count`: enough to fill the device, not more.
inline unsigned blocks_for(const Device& device, uint64_t count) {
  const uint64_t needed = (count + kBlock - 1) / kBlock;
  const uint64_t most = static_cast<uint64_t>(device.processors) * 16;
  return static_cast<unsigned>(needed < 1 ? 1 : needed < most ? needed : most);
}

/// A dtype of the kernel library.
struct Dtype {
  const char* name;  // in functions of the library
  const char* type;  // in kernels/types.cu
  unsigned size;
  bool floating;
  const char* compute;  // the type of the computation
};

/// NULL: no such dtype.
const Dtype* find_dtype(std::string_view name);
const std::vector<Dtype>& all_dtypes();

/// The function of the kernel library with this name; NULL if there is none.
std::unique_ptr<Function> make_library_function(Device& device, const std::string& name);
/// The names of all functions.
std::vector<std::string> library_functions();

// Of each group; the operation is one that the group has.
std::unique_ptr<Function> make_elementwise(Device& device, const std::string& name, std::string_view group,
                                           std::string_view operation, const Dtype& dtype, const Dtype* to);
std::unique_ptr<Function> make_copy_bytes(Device& device, const std::string& name, unsigned size);
std::unique_ptr<Function> make_reduction(Device& device, const std::string& name, std::string_view operation,
                                         const Dtype& dtype);
std::unique_ptr<Function> make_index(Device& device, const std::string& name, bool scatter,
                                     const Dtype& dtype);
std::unique_ptr<Function> make_matmul(Device& device, const std::string& name, const Dtype& dtype);

}  // namespace nv
