// Starts ipc_peer.cpp, the second process of the IPC tests, and sends it commands.
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

  /// Sends a command. Returns the reply, "ok ..." or "error ...".
  std::string ask(const std::string& command) {
    std::fprintf(in_, "%s\n", command.c_str());
    std::fflush(in_);
    char line[2048];
    if (!std::fgets(line, sizeof(line), out_)) return "no reply";
    line[std::strcspn(line, "\n")] = '\0';
    return line;
  }
  /// Sends a command. Returns the value of the reply; fails the test if the reply is an error.
  std::string get(const std::string& command) {
    const std::string reply = ask(command);
    EXPECT_EQ(reply.substr(0, 3), "ok ") << command << ": " << reply;
    return reply.substr(std::min<size_t>(3, reply.size()));
  }
  void stop() {
    std::fclose(in_);
    waitpid(process_, nullptr, 0);
    process_ = -1;
  }
  /// Kills the process and leaves a zombie, as in a program that has not reaped its child yet.
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
