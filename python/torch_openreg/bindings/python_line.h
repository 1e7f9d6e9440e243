// Lines of the Python program, for messages.
#pragma once

#include <pybind11/pybind11.h>

#include <functional>
#include <string>

/// "file.py:12 in name" of the innermost frame outside of torch and this package; empty if the calling thread
/// has none. Takes the GIL. See csrc/kernel/launch_site.h.
std::string python_line_or_nothing();

/// Whether the frame is of torch, of this package or of generated code; and its "file.py:12 in name". They do
/// not throw. The caller holds the GIL.
bool is_internal_frame(PyFrameObject* frame);
std::string text_of_frame(PyFrameObject* frame);

/// The same without a deadlock: the calling thread may hold locks of this package, whose order is after the
/// GIL. If the GIL cannot be taken within a fraction of a second, the result is empty.
std::string python_line_under_locks();

enum class Acquired { kYes, kTimeout, kInterpreterEnds };
/// Runs `body` with the GIL, on another thread, and waits for it for a limited time. After kTimeout, `body`
/// is not called any more.
Acquired run_with_gil(std::function<void()> body);

/// After this call, python_line_under_locks returns nothing unless the caller holds the GIL, and run_with_gil
/// does nothing: the interpreter is about to end.
void stop_python_lines();
