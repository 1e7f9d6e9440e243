// The other process of the tests between processes, as ipc_peer.cpp answers it.
#pragma once

#include "support.h"

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <fcntl.h>
#include <spawn.h>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace support {

class Peer {
 public:
  Peer() {
    int to[2], from[2];
    EXPECT_EQ(pipe2(to, O_CLOEXEC), 0);
    EXPECT_EQ(pipe2(from, O_CLOEXEC), 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, to[0], 0);
    posix_spawn_file_actions_adddup2(&actions, from[1], 1);
    char path[] = OPENREG_IPC_PEER;
    char* arguments[] = {path, nullptr};
    EXPECT_EQ(posix_spawn(&process_, path, &actions, nullptr, arguments, environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    close(to[0]);
    close(from[1]);
    in_ = fdopen(to[1], "w");
    out_ = fdopen(from[0], "r");
  }
  ~Peer() {
    if (process_ > 0) stop();
    std::fclose(out_);
  }

  /// "ok ..." or "error ...".
  std::string ask(const std::string& command) {
    std::fprintf(in_, "%s\n", command.c_str());
    std::fflush(in_);
    char line[2048];
    if (!std::fgets(line, sizeof(line), out_)) return "no answer";
    line[std::strcspn(line, "\n")] = '\0';
    return line;
  }
  /// The value; fails the test if it is an error.
  std::string get(const std::string& command) {
    const std::string answer = ask(command);
    EXPECT_EQ(answer.substr(0, 3), "ok ") << command << ": " << answer;
    return answer.substr(std::min<size_t>(3, answer.size()));
  }
  void stop() {
    std::fclose(in_);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  /// Dead, and not waited for: a zombie, as a real program's child would be for a while.
  void kill() {
    ::kill(process_, SIGKILL);
    siginfo_t info;
    waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOWAIT);
  }

 private:
  pid_t process_ = -1;
  FILE* in_ = nullptr;
  FILE* out_ = nullptr;
};

}  // namespace support
