#include "python_line.h"

#include "bindings.h"
#include "utf8.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;

// The folders of torch and of this package, with a trailing slash, and the modules whose decorators torch's
// functions have. The caller holds the GIL.
const std::vector<std::string>& internal_paths() {
  static const auto* paths = [] {
    auto* made = new std::vector<std::string>;
    const auto modules = py::module_::import("sys").attr("modules").cast<py::dict>();
    for (const char* name : {"torch", "torch_openreg"}) {
      if (modules.contains(name)) {
        made->push_back(modules[name].attr("__path__").attr("__getitem__")(0).cast<std::string>() + "/");
      }
    }
    for (const char* name : {"contextlib", "typing_extensions"}) {
      if (modules.contains(name)) made->push_back(modules[name].attr("__file__").cast<std::string>());
    }
    return made;
  }();
  return *paths;
}

// Generated code: of torch.fx, and of Inductor, whose modules are not in torch's folder.
bool is_generated(const std::string& file, const py::object& frame) {
  if (file.starts_with("<eval_with_key>")) {
    return true;
  }
  const auto globals = frame.attr("f_globals").cast<py::dict>();
  return globals.contains("__name__") && py::isinstance<py::str>(globals["__name__"]) &&
         globals["__name__"].cast<std::string>().starts_with("torch._inductor.");
}

bool is_internal(const std::string& file) {
  const auto& paths = internal_paths();
  return std::any_of(paths.begin(), paths.end(),
                     [&](const std::string& path) { return file.starts_with(path); });
}

py::object code_of(PyFrameObject* frame) {
  return py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetCode(frame)));
}

// Messages have a fixed size, most of it for the reason of a failure.
constexpr size_t kLongestPath = 160;
constexpr size_t kLongestName = 60;

// The end of a path, from the first whole character on.
std::string end_of(const std::string& path) {
  if (path.size() <= kLongestPath) return path;
  size_t begin = path.size() - kLongestPath;
  while (begin < path.size() && (static_cast<unsigned char>(path[begin]) & 0xc0) == 0x80) ++begin;
  return "..." + path.substr(begin);
}

std::string begin_of(const std::string& name) {
  const size_t length = openreg::length_up_to(name, kLongestName);
  return length == name.size() ? name : name.substr(0, length) + "...";
}

// The caller holds the GIL. `thread` does not run Python meanwhile.
std::string line_of(PyThreadState* thread) {
  auto frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyThreadState_GetFrame(thread)));
  while (frame) {
    auto* raw = reinterpret_cast<PyFrameObject*>(frame.ptr());
    if (!is_internal_frame(raw)) {
      return text_of_frame(raw);
    }
    frame = py::reinterpret_steal<py::object>(reinterpret_cast<PyObject*>(PyFrame_GetBack(raw)));
  }
  return {};
}

// A thread asks a helper that takes the GIL, and waits a limited time. Without the helper it would have to
// wait for the GIL, which a thread may hold that waits for a lock of the asking thread.
struct Request {
  std::mutex mutex;  // guards the rest; the helper holds it while it runs the body
  std::condition_variable changed;
  std::function<void()> body;  // empty: the asking thread has given up
  bool done = false;
};

std::mutex stop_mutex;  // guards `stopped`; held while a helper starts
bool stopped = false;

void answer(const std::shared_ptr<Request>& request) {
  const py::gil_scoped_acquire gil;
  std::lock_guard lock(request->mutex);
  if (request->body) request->body();
  request->done = true;
  request->changed.notify_all();
}

}  // namespace

Acquired run_with_gil(std::function<void()> body) {
  const auto request = std::make_shared<Request>();
  request->body = std::move(body);
  {
    std::lock_guard lock(stop_mutex);
    if (stopped || Py_IsInitialized() == 0) return Acquired::kInterpreterEnds;
    std::thread([request] { answer(request); }).detach();
  }
  std::unique_lock lock(request->mutex);
  if (request->changed.wait_for(lock, 500ms, [&] { return request->done; })) return Acquired::kYes;
  request->body = nullptr;
  return Acquired::kTimeout;
}

bool is_internal_frame(PyFrameObject* frame) {
  try {
    const auto file = code_of(frame).attr("co_filename").cast<std::string>();
    return is_internal(file) ||
           is_generated(file, py::reinterpret_borrow<py::object>(reinterpret_cast<PyObject*>(frame)));
  } catch (const std::exception&) {
    return true;
  }
}

std::string text_of_frame(PyFrameObject* frame) {
  try {
    const py::object code = code_of(frame);
    return end_of(code.attr("co_filename").cast<std::string>()) + ":" +
           std::to_string(PyFrame_GetLineNumber(frame)) + " in " +
           begin_of(code.attr("co_name").cast<std::string>());
  } catch (const std::exception&) {
    return {};
  }
}

std::string python_line_or_nothing() {
  if (Py_IsInitialized() == 0 || PyGILState_GetThisThreadState() == nullptr) {
    return {};
  }
  const py::gil_scoped_acquire gil;
  return line_of(PyThreadState_Get());
}

std::string python_line_under_locks() {
  PyThreadState* thread = Py_IsInitialized() == 0 ? nullptr : PyGILState_GetThisThreadState();
  if (thread == nullptr) return {};
  if (PyGILState_Check() != 0) return line_of(thread);
  const auto line = std::make_shared<std::string>();
  return run_with_gil([thread, line] { *line = line_of(thread); }) == Acquired::kYes ? *line : std::string();
}

void stop_python_lines() {
  std::lock_guard lock(stop_mutex);
  stopped = true;
}
