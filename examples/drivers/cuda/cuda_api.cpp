// Finds and loads libcuda, libnvrtc and libcublas.
//
// Another chip: dlopen as here, so that the package can be installed on machines without the chip; or link
// its library, which makes "cannot load the driver" the message on those machines.
#include "cuda_api.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <link.h>
#include <string>
#include <string_view>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace nv {
namespace {

constexpr const char* kVariable = "TORCH_NV_LIBRARY_PATH";

// Folders of CUDA libraries that the process has loaded, and of the packages beside them: pip installs each
// library into a folder of its own.
int add_loaded_folders(dl_phdr_info* info, size_t, void* given) {
  const std::string_view path = info->dlpi_name ? info->dlpi_name : "";
  const size_t slash = path.rfind('/');
  if (slash == std::string_view::npos) return 0;
  const std::string_view file = path.substr(slash + 1);
  for (const std::string_view known : {"libcudart.so", "libcublas.so", "libnvrtc.so", "libtorch_cuda.so"}) {
    if (!file.starts_with(known)) continue;
    const std::string folder(path.substr(0, slash));
    auto& folders = *static_cast<std::vector<std::string>*>(given);
    folders.push_back(folder);
    for (const char* package : {"cuda_nvrtc", "cublas"})
      folders.push_back(folder + "/../../" + package + "/lib");
    for (const char* package : {"cu13", "cuda_nvrtc", "cublas"}) {
      folders.push_back(folder + "/../../nvidia/" + package + "/lib");
    }
  }
  return 0;
}

std::vector<std::string> folders() {
  std::vector<std::string> all;
  const char* variable = std::getenv(kVariable);
  for (std::string_view rest = variable ? variable : ""; !rest.empty();) {
    const size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) all.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  dl_iterate_phdr(&add_loaded_folders, &all);
  all.emplace_back("/usr/local/cuda/lib64");
  return all;
}

// By soname first: that also finds a library that the process has loaded. `broken`: a file that exists and
// cannot be loaded.
void* open_library(const std::vector<std::string>& names, std::string& broken) {
  for (const std::string& name : names) {
    if (void* library = dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
  }
  for (const std::string& folder : folders()) {
    for (const std::string& name : names) {
      const std::string path = folder + "/" + name;
      if (void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL)) return library;
      const char* reason = dlerror();
      if (broken.empty() && reason && access(path.c_str(), F_OK) == 0) broken = reason;
    }
  }
  return nullptr;
}

struct Symbol {
  const char* name;
  void* function;  // where its address is stored
};

/// Fills the symbols; returns the empty string or what is missing.
std::string load(const std::vector<std::string>& names, const std::vector<Symbol>& symbols,
                 const char* hint) {
  std::string tried;
  for (const std::string& name : names) tried += (tried.empty() ? "" : " or ") + name;
  std::string broken;
  void* library = open_library(names, broken);
  if (!library && !broken.empty()) return "cannot load " + tried + ": " + broken;
  if (!library) {
    const char* given = std::getenv(kVariable);
    return "cannot load " + tried + ": " + hint +
           (given && *given ? std::string("; ") + kVariable + " is " + given : std::string());
  }
  for (const Symbol& symbol : symbols) {
    void* address = dlsym(library, symbol.name);
    if (!address) return tried + " has no function '" + symbol.name + "': update the NVIDIA software";
    *static_cast<void**>(symbol.function) = address;
  }
  return {};
}

std::vector<std::string> versions(const char* stem) {
  return {std::string(stem) + ".so.13", std::string(stem) + ".so.12"};
}

// NVRTC opens this library of its own by name when it compiles. That of pip's CUDA 13.0 does not look in its
// own folder, so the library is loaded from there before.
void load_builtins(const void* nvrtc_function) {
  Dl_info found{};
  if (!dladdr(nvrtc_function, &found) || !found.dli_fname) return;
  std::error_code ignored;
  const auto folder = std::filesystem::path(found.dli_fname).parent_path();
  for (const auto& entry : std::filesystem::directory_iterator(folder, ignored)) {
    if (entry.path().filename().string().starts_with("libnvrtc-builtins.so.")) {
      dlopen(entry.path().c_str(), RTLD_NOW | RTLD_LOCAL);
    }
  }
}

const std::string kToolkitHint =
    std::string("install CUDA's libraries (pip install torch with CUDA has them), or set ") + kVariable +
    " to their folders, separated by ':'";

}  // namespace

Cuda cuda;

#define NV_SYMBOL(member, symbol, parameters) {symbol, &into.member},

bool load_cuda(const char** why) {
  static const std::string problem = [] {
    Cuda& into = cuda;
    return load({"libcuda.so.1"}, {NV_CUDA_FUNCTIONS(NV_SYMBOL)},
                "this machine has no NVIDIA driver, or the container does not have its libraries");
  }();
  *why = problem.c_str();
  return problem.empty();
}

const Nvrtc* load_nvrtc(const char** why) {
  static Nvrtc into;
  static const std::string problem = [] {
    std::string missing = load(versions("libnvrtc"), {NV_NVRTC_FUNCTIONS(NV_SYMBOL)}, kToolkitHint.c_str());
    if (missing.empty()) load_builtins(reinterpret_cast<const void*>(into.compile));
    return missing;
  }();
  *why = problem.c_str();
  return problem.empty() ? &into : nullptr;
}

const Cublas* load_cublas(const char** why) {
  static Cublas into;
  static const std::string problem =
      load(versions("libcublas"), {NV_CUBLAS_FUNCTIONS(NV_SYMBOL)}, kToolkitHint.c_str());
  *why = problem.c_str();
  return problem.empty() ? &into : nullptr;
}

}  // namespace nv
