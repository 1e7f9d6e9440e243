// Compiles the functions of the kernel library with NVRTC, which needs no GPU. Not part of the driver.
//
// check_kernels ARCH [PART]...: those whose name contains one of the parts; all without parts. Exit code 77:
// NVRTC is absent.
#include "function.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>

namespace {

void print(const char* message) {
  std::fprintf(stderr, "%s\n", message);
}

}  // namespace

int main(int count, char** arguments) {
  static constexpr orHost kHost = {sizeof(orHost), &print, OR_DRIVER_VERSION};
  const char* why = "";
  nv::set_host(&kHost);
  if (!nv::load_nvrtc(&why)) {
    print(why);
    return 77;
  }
  const int arch = count > 1 ? std::atoi(arguments[1]) : 90;
  const std::vector<std::string> parts(arguments + std::min(count, 2), arguments + count);
  nv::Device device;
  int compiled = 0, failed = 0;
  for (const std::string& name : nv::library_functions()) {
    const auto wanted = [&](const std::string& part) { return name.find(part) != std::string::npos; };
    if (!parts.empty() && std::ranges::none_of(parts, wanted)) continue;
    std::string image;
    const auto function = nv::make_library_function(device, name);
    if (function && nv::compile(*function->source(), arch, image) == orSuccess && !image.empty()) {
      ++compiled;
    } else {
      ++failed;
      std::fprintf(stderr, "%s: not compiled\n", name.c_str());
    }
  }
  std::printf("%d functions compiled for sm_%d, %d failed\n", compiled, arch, failed);
  return failed == 0 && compiled > 0 ? 0 : 1;
}
