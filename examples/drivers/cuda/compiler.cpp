// Another chip: its compiler at build time, and images inside of the driver. Compiling at run time keeps this
// example free of CUDA at build time; it costs some tens of milliseconds at the first use of each function.
#include "compiler.h"

#include <algorithm>

namespace nv {

const char* const kTypesSource =
#include "kernels/types.cu"
    ;
const char* const kElementwiseSource =
#include "kernels/elementwise.cu"
    ;
const char* const kReduceSource =
#include "kernels/reduce.cu"
    ;
const char* const kIndexSource =
#include "kernels/index.cu"
    ;
const char* const kMatmulSource =
#include "kernels/matmul.cu"
    ;

namespace {

// The newest architecture that NVRTC knows, for GPUs that are newer: CUDA compiles its PTX when it loads it.
int newest_arch(const Nvrtc& nvrtc) {
  int count = 0;
  if (nvrtc.arch_count(&count) || count <= 0) return 0;
  std::vector<int> archs(static_cast<size_t>(count));
  return nvrtc.archs(archs.data()) ? 0 : *std::ranges::max_element(archs);
}

orError_t read_image(const Nvrtc& nvrtc, nvrtcProgram program, bool ptx, std::string& image) {
  size_t size = 0;
  int result = ptx ? nvrtc.ptx_size(program, &size) : nvrtc.cubin_size(program, &size);
  image.resize(size);
  if (!result) result = ptx ? nvrtc.ptx(program, image.data()) : nvrtc.cubin(program, image.data());
  return result ? fail(orErrorSystem, "NVRTC returned error %d for a compiled kernel", result) : orSuccess;
}

orError_t compile_program(const Nvrtc& nvrtc, nvrtcProgram program, const Source& source, int arch,
                          std::string& image) {
  const int newest = newest_arch(nvrtc);
  const bool ptx = newest != 0 && arch > newest;
  std::vector<std::string> options = {
      "--std=c++17",
      "--gpu-architecture=" + std::string(ptx ? "compute_" : "sm_") + std::to_string(ptx ? newest : arch)};
  for (const std::string& define : source.defines) options.push_back("-D" + define);
  std::vector<const char*> pointers;
  for (const std::string& option : options) pointers.push_back(option.c_str());
  const int result = nvrtc.compile(program, static_cast<int>(pointers.size()), pointers.data());
  if (!result) return read_image(nvrtc, program, ptx, image);
  size_t size = 0;
  std::string log;
  if (!nvrtc.log_size(program, &size)) {
    log.resize(size);
    static_cast<void>(nvrtc.log(program, log.data()));
  }
  return fail(orErrorSystem, "NVRTC cannot compile a kernel (error %d): %s", result, log.c_str());
}

}  // namespace

orError_t compile(const Source& source, int arch, std::string& image) {
  const char* why = "";
  const Nvrtc* nvrtc = load_nvrtc(&why);
  if (!nvrtc) return fail(orErrorSystem, "%s", why);
  const std::string text = std::string(kTypesSource) + source.text;
  nvrtcProgram program = nullptr;
  if (const int result = nvrtc->create(&program, text.c_str(), "openreg_nv.cu", 0, nullptr, nullptr)) {
    return fail(orErrorSystem, "NVRTC returned error %d for a source", result);
  }
  const orError_t error = compile_program(*nvrtc, program, source, arch, image);
  static_cast<void>(nvrtc->destroy(&program));
  return error;
}

// Submitted launches still use the code.
Program::~Program() {
  if (!module_) return;
  const std::lock_guard lock(device_.mutex);
  device_.unloaded.push_back(module_);
}

orError_t Program::load_once() {
  const std::lock_guard lock(mutex_);
  if (loaded_) return orSuccess;
  std::string image;
  NV_RETURN_IF_ERROR(compile(source_, device_.arch, image));
  NV_RETURN_IF_ERROR(NV_CALL(module_load, &module_, image.c_str()));
  loaded_.store(true, std::memory_order_release);
  return orSuccess;
}

orError_t Program::find(const char* name, CUfunction& function) const {
  return NV_CALL(module_function, &function, module_, name);
}

}  // namespace nv
