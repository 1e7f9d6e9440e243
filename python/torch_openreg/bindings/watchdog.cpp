// Bindings of openreg/watchdog.h, and its hooks: the Python line of a launch, and the stacks of all threads.
#include "bindings.h"
#include "common/check.h"
#include "diagnostics/watched_launch.h"
#include "python_line.h"

#include <openreg/watchdog.h>
#include <pybind11/stl.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <dlfcn.h>
#include <string>
#include <tuple>
#include <unistd.h>

using torch::wrap_pybind_function_no_gil;

namespace {

void write_text(char* buffer, size_t size, const std::string& text) {
  std::snprintf(buffer, size, "%s", text.c_str());
}

// The thread may hold locks, so it does not wait for the GIL.
void write_site(char* buffer, size_t size) {
  std::string site = openreg::watched_site();
  if (site.empty() && Py_IsInitialized() != 0 && PyGILState_Check() != 0) {
    site = python_line_or_nothing();
  }
  write_text(buffer, size, site);
}

void write_arguments(char* buffer, size_t size) {
  write_text(buffer, size, openreg::watched_arguments());
}

// If a thread does not release the GIL, the stacks are written without it, as faulthandler does after a fatal
// signal.
void write_stacks() {
  const Acquired acquired = run_with_gil([] {
    try {
      py::module_::import("faulthandler").attr("dump_traceback")(STDERR_FILENO, true);
    } catch (const std::exception& error) {
      std::fprintf(stderr, "no Python stacks: %s\n", error.what());
    }
  });
  if (acquired != Acquired::kTimeout) return;
  using Dump = const char* (*)(int, PyInterpreterState*, PyThreadState*);
  const auto dump = reinterpret_cast<Dump>(dlsym(RTLD_DEFAULT, "_Py_DumpTracebackThreads"));
  std::fputs("A thread does not release the GIL. Stacks:\n", stderr);
  if (dump != nullptr) dump(STDERR_FILENO, nullptr, nullptr);
}

void write_report(const char* text) {
  std::fputs(text, stderr);
  std::fflush(stderr);
  write_stacks();
  std::fflush(stderr);
}

std::tuple<double, bool> set_watchdog(double seconds, bool fail_streams) {
  const orWatchdogOptions options = {sizeof(orWatchdogOptions), fail_streams ? 1 : 0,
                                     static_cast<uint64_t>(std::ceil(std::min(seconds * 1e9, 4e18)))};
  orWatchdogOptions before{};
  before.struct_size = sizeof(before);
  OR_CHECK(orWatchdogSet(&options, &before));
  openreg::watch_launches(options.limit_ns != 0);
  return {static_cast<double>(before.limit_ns) * 1e-9, before.fail_streams != 0};
}

}  // namespace

void bind_watchdog(py::module_& m) {
  const orWatchdogHooks hooks = {sizeof(orWatchdogHooks), &write_site, &write_arguments, &write_report};
  OR_CHECK(orWatchdogSetHooks(&hooks));
  m.def("set_watchdog", wrap_pybind_function_no_gil(set_watchdog));
  m.def("stop_python_stacks", wrap_pybind_function_no_gil(stop_python_lines));
}
