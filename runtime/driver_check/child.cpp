#include "child.h"

#include "check.h"

#include <csignal>
#include <cstring>
#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

namespace openreg::check {

Ended run_child(const std::vector<std::string>& arguments, int seconds) {
  Ended ended;
  int ends[2];
  if (pipe(ends) != 0) {
    ended.abnormal = std::string("cannot create a pipe: ") + std::strerror(errno);
    return ended;
  }
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);  // so that its own children are killed with it
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    std::string program = "openreg-driver-check";
    std::vector<char*> argv = {program.data()};
    std::vector<std::string> copies = arguments;
    argv.reserve(copies.size() + 2);
    for (std::string& argument : copies) argv.push_back(argument.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }
  close(ends[1]);
  const int64_t deadline = now_ns() + seconds * int64_t{1'000'000'000};
  bool late = false;
  for (;;) {
    const int64_t left = (deadline - now_ns()) / 1'000'000;
    pollfd descriptor = {ends[0], POLLIN, 0};
    if (left <= 0 || poll(&descriptor, 1, static_cast<int>(left)) == 0) {
      late = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);
      break;
    }
    char buffer[4096];
    const ssize_t count = read(ends[0], buffer, sizeof(buffer));
    if (count <= 0) break;
    ended.output.append(buffer, static_cast<size_t>(count));
  }
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (late) {
    ended.abnormal = "hangs: not done after " + std::to_string(seconds) + " seconds";
  } else if (WIFSIGNALED(status)) {
    ended.abnormal = std::string("crashes: ") + strsignal(WTERMSIG(status));
  } else {
    ended.code = WEXITSTATUS(status);
  }
  return ended;
}

}  // namespace openreg::check
