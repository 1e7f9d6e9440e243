// openreg-driver-check: checks a driver against the rules of driver.h and openreg.h.
//
// This process does not load the driver. It starts itself again for each check, so a crash or a hang is the
// result of one check.
#include "check.h"
#include "child.h"
#include "driver_file.h"
#include "driver_table.h"
#include "error.h"
#include "support.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <unistd.h>

using namespace openreg;
using namespace openreg::check;

namespace {

constexpr const char* kUsage =
    "usage: openreg-driver-check [--list] [--only CHECK]... [--timeout SECONDS] LIBRARY\n"
    "       openreg-driver-check --run CHECK LIBRARY\n"
    "\n"
    "Checks the driver in LIBRARY, and prints what it supports and which rules it breaks.\n"
    "Exit code: 0 if all checks pass, 1 if one fails, 2 if the driver cannot be loaded or used or the "
    "arguments are wrong.\n"
    "\n"
    "  --list       print the checks and their rules\n"
    "  --only       run only this check; may be repeated\n"
    "  --timeout    seconds after which a check counts as hanging; default 60\n"
    "  --run        run one check in this process, for a debugger\n";

constexpr int kNotLoaded = 3;  // exit code of a child process

std::vector<Check> all_checks() {
  std::vector<Check> all;
  for (const auto& group : {device_checks(), memory_checks(), copy_checks(), stream_checks(), kernel_checks(),
                            failure_checks(), event_checks(), function_checks(), library_checks(),
                            graph_checks(), ipc_checks(), process_checks()}) {
    all.insert(all.end(), group.begin(), group.end());
  }
  return all;
}

std::string library;  // of the driver; for run_peer

// Loads and initializes the driver, in the process of a check.
const orDriver& load() {
  static orDriver table{};
  static const orHost host = {sizeof(orHost), &report_from_driver, OR_DRIVER_VERSION};
  const orDriver* given = nullptr;
  const DriverFile file = {library.c_str(), "the command line"};
  const std::string who = "the driver '" + library + "'";
  if (open_driver_file(file, given) || negotiate(*given, who.c_str(), table)) {
    std::printf("%s\n", orGetLastErrorMessage());
    std::fflush(nullptr);
    _exit(kNotLoaded);
  }
  expect(table.init(&host), orSuccess, "init");
  return table;
}

int run_check(const std::string& name) {
  for (const Check& check : all_checks()) {
    if (name != check.name) continue;
    const orDriver& driver = load();
    try {
      if (check.opens) OK(driver.device_open(0));
      check.run(driver);
    } catch (const Skipped& skipped) {
      std::printf("%s\n", skipped.why.c_str());
      return kSkipped;
    }
    return kPassed;
  }
  return kViolated;
}

// In a process of its own. It ends without destructors: only the check "exit" is about them.
int run_internal(const std::string& command, const std::string& argument) {
  int code = kViolated;
  if (command == "--run") code = run_check(argument);
  if (command == "--peer") code = ipc_peer(load(), argument);
  if (command == "--describe") code = describe(load());
  std::fflush(nullptr);
  _exit(code);
}

int check_all(const std::vector<std::string>& only, int seconds) {
  const Ended described = run_child({"--describe", "", library}, seconds);
  std::printf("%s", described.output.c_str());
  if (described.problem() != nullptr || described.code != kPassed) {
    std::printf("%s%s%s\n",
                described.code == kNotLoaded ? "the driver cannot be loaded"
                                             : "the driver cannot be used; no check was run",
                described.problem() ? ": " : "", described.problem() ? described.problem() : "");
    return 2;
  }
  std::vector<std::string> failed;
  int passed = 0, skipped = 0;
  for (const Check& check : all_checks()) {
    if (!only.empty() && std::ranges::find(only, check.name) == only.end()) continue;
    const Ended ended = run_child({"--run", check.name, library}, seconds);
    const std::string first_line = ended.output.substr(0, ended.output.find('\n'));
    if (ended.problem() == nullptr && ended.code == kPassed) {
      ++passed;
      std::printf("  ok       %s\n", check.name);
    } else if (ended.problem() == nullptr && ended.code == kSkipped) {
      ++skipped;
      std::printf("  skipped  %s: %s\n", check.name, first_line.c_str());
    } else {
      failed.emplace_back(check.name);
      std::printf("  FAILED   %s: %s\n           the rule: %s\n", check.name,
                  ended.problem() ? ended.problem() : first_line.c_str(), check.rule);
    }
    std::fflush(stdout);
  }
  std::printf("\n%d passed, %d skipped, %zu failed", passed, skipped, failed.size());
  for (size_t i = 0; i < failed.size(); ++i) std::printf("%s%s", i == 0 ? ": " : ", ", failed[i].c_str());
  std::printf("\n");
  return failed.empty() ? 0 : 1;
}

bool is_check(const std::string& name) {
  const auto all = all_checks();
  return std::ranges::any_of(all, [&](const Check& check) { return name == check.name; });
}

// A name without a slash is searched by the dynamic loader, but a file of the working directory precedes.
std::string resolve(const std::string& name) {
  return name.find('/') == std::string::npos && access(name.c_str(), F_OK) == 0 ? "./" + name : name;
}

int fail_usage(const char* what, const char* value) {
  std::fprintf(stderr, "openreg-driver-check: %s%s\n\n%s", what, value, kUsage);
  return 2;
}

}  // namespace

bool openreg::check::run_peer(const std::string& argument) {
  const Ended ended = run_child({"--peer", argument, library}, 60);
  std::printf("%s", ended.output.c_str());
  return ended.problem() == nullptr && ended.code == kPassed;
}

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::vector<std::string> only;
  int seconds = 60;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    const bool has_value = i + 1 < arguments.size();
    if (argument == "--help" || argument == "-h") return std::printf("%s", kUsage), 0;
    if (argument == "--list") {
      for (const Check& check : all_checks()) std::printf("%-24s %s\n", check.name, check.rule);
      return 0;
    }
    if ((argument == "--run" || argument == "--peer" || argument == "--describe") &&
        i + 2 < arguments.size()) {
      library = resolve(arguments[i + 2]);
      if (argument == "--run" && !is_check(arguments[i + 1])) {
        return fail_usage("no such check: ", arguments[i + 1].c_str());
      }
      return run_internal(argument, arguments[i + 1]);
    }
    if (argument == "--only" && has_value) {
      only.push_back(arguments[++i]);
      if (!is_check(only.back())) {
        return fail_usage("no such check: ", only.back().c_str());
      }
    } else if (argument == "--timeout" && has_value) {
      seconds = std::atoi(arguments[++i].c_str());
      if (seconds <= 0) return fail_usage("invalid timeout: ", arguments[i].c_str());
    } else if (argument.starts_with("-")) {
      return fail_usage("unknown or incomplete option: ", argument.c_str());
    } else if (!library.empty()) {
      return fail_usage("more than one library: ", argument.c_str());
    } else {
      library = resolve(argument);
    }
  }
  if (library.empty()) return fail_usage("no library", "");
  return check_all(only, seconds);
}
