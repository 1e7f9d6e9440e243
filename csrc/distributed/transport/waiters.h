// Threads that wait for other processes.
//
// A collective may wait for minutes, so it must not occupy a thread of the device. There are as many threads
// as tasks that wait at the same time; idle threads are reused and never end. Thread safety: all functions
// may be called from any thread.
#pragma once

#include <functional>

namespace openreg::distributed {

/// Runs the task on a waiting thread. It must not throw.
void run_on_waiter(std::function<void()> task);

}  // namespace openreg::distributed
