// Runs this program again, with a time limit.
#pragma once

#include <string>
#include <vector>

namespace openreg::check {

struct Ended {
  std::string output;
  int code = -1;
  std::string abnormal;  // empty, or a crash or a hang

  const char* problem() const { return abnormal.empty() ? nullptr : abnormal.c_str(); }
};

/// Runs this program with the arguments and returns its output. A process that runs longer is killed.
Ended run_child(const std::vector<std::string>& arguments, int seconds);

}  // namespace openreg::check
