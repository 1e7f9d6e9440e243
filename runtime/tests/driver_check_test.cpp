// openreg-driver-check: passes on good drivers, and finds the broken rule of each broken driver by its name.
#include <array>
#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>
#include <utility>
#include <vector>

namespace {

std::string test_driver(const std::string& name) {
  return OPENREG_TEST_DRIVERS "/" + name + ".so";
}

struct Result {
  int code;
  std::string output;
};

Result run(const std::string& arguments) {
  const std::string command = std::string(OPENREG_DRIVER_CHECK) + " " + arguments + " 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  std::string output;
  std::array<char, 4096> buffer;
  while (const size_t count = std::fread(buffer.data(), 1, buffer.size(), pipe))
    output.append(buffer.data(), count);
  return {WEXITSTATUS(pclose(pipe)), output};
}

bool contains(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

// The names of the broken drivers that a check finds.
std::vector<std::string> broken_drivers() {
  void* library = dlopen(test_driver("broken").c_str(), RTLD_NOW);
  auto* name = reinterpret_cast<const char* (*)(size_t)>(dlsym(library, "broken_driver_name"));
  std::vector<std::string> names;
  for (size_t i = 0; name && name(i); ++i) {
    if (contains(name(i), ": ")) names.emplace_back(name(i));
  }
  return names;
}

}  // namespace

TEST(DriverCheck, PassesOnGoodDrivers) {
  for (const std::string& driver :
       {std::string(OPENREG_SIM), std::string(OPENREG_DISCRETE), test_driver("foo"), test_driver("generated"),
        test_driver("minimal"), test_driver("minimal_v4"), test_driver("minimal_future")}) {
    const Result result = run(driver);
    EXPECT_EQ(result.code, 0) << driver << "\n" << result.output;
    EXPECT_TRUE(contains(result.output, ", 0 failed")) << result.output;
  }
}

TEST(DriverCheck, PrintsWhatADriverSupports) {
  const Result sim = run("--only device-count " OPENREG_SIM);
  EXPECT_TRUE(contains(sim.output, "driver 'sim', version 6")) << sim.output;
  EXPECT_TRUE(contains(sim.output, "graphs                             yes")) << sim.output;
  EXPECT_TRUE(contains(sim.output, "1 passed, 0 skipped, 0 failed")) << sim.output;
  const Result minimal = run("--only graph-replay " + test_driver("minimal"));
  EXPECT_TRUE(contains(minimal.output, "graphs                             no")) << minimal.output;
  EXPECT_TRUE(contains(minimal.output, "skipped  graph-replay: no graphs")) << minimal.output;
}

TEST(DriverCheck, FindsTheBrokenRuleOfEachBrokenDriver) {
  const std::vector<std::string> names = broken_drivers();
  EXPECT_GE(names.size(), 40u);
  for (const std::string& name : names) {
    const std::string check = name.substr(0, name.find(':'));
    setenv("BROKEN_DRIVER", name.c_str(), 1);
    // Short, for the drivers that hang. A correct driver needs a few milliseconds.
    const Result result = run("--timeout 5 --only " + check + " " + test_driver("broken"));
    EXPECT_EQ(result.code, 1) << name << "\n" << result.output;
    EXPECT_TRUE(contains(result.output, "FAILED   " + check + ": ")) << name << "\n" << result.output;
    EXPECT_TRUE(contains(result.output, "1 failed: " + check)) << name << "\n" << result.output;
  }
  setenv("BROKEN_DRIVER", "none", 1);
  for (const std::string& name : names) {
    const Result result = run("--only " + name.substr(0, name.find(':')) + " " + test_driver("broken"));
    EXPECT_EQ(result.code, 0) << name << "\n" << result.output;
  }
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverCheck, NamesTheEntryThatFailed) {
  setenv("BROKEN_DRIVER", "memory-exhaustion: another code", 1);
  const Result result = run("--only memory-exhaustion " + test_driver("broken"));
  EXPECT_TRUE(contains(result.output, "memory_alloc returned")) << result.output;
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverCheck, ReportsACrashAndAHang) {
  setenv("BROKEN_DRIVER", "exit: aborts", 1);
  EXPECT_TRUE(
      contains(run("--only exit " + test_driver("broken")).output, "FAILED   exit: crashes: Aborted"));
  setenv("BROKEN_DRIVER", "stream-destroy: waits", 1);
  EXPECT_TRUE(contains(run("--timeout 1 --only stream-destroy " + test_driver("broken")).output,
                       "FAILED   stream-destroy: hangs: not done after 1 seconds"));
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverCheck, DriversThatCannotBeLoaded) {
  const Result missing = run("/nonexistent/libfoo.so");
  EXPECT_EQ(missing.code, 2);
  EXPECT_TRUE(contains(missing.output, "cannot open the driver '/nonexistent/libfoo.so'")) << missing.output;
  setenv("BROKEN_DRIVER", "required entry", 1);
  const Result incomplete = run(test_driver("broken"));
  EXPECT_EQ(incomplete.code, 2);
  EXPECT_TRUE(contains(incomplete.output, "has no 'stream_copy', which is required")) << incomplete.output;
  EXPECT_TRUE(contains(incomplete.output, "the driver cannot be loaded")) << incomplete.output;
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverCheck, DriversThatCannotBeUsed) {
  const std::pair<const char*, const char*> cases[] = {
      {"init", "init returned orErrorSystem (10): the firmware has version 3; this driver needs 4"},
      {"no stream", "stream_create returned orSuccess and no stream"},
      {"too many devices", "device_count is 65; the supported range is 1 to 64"},
  };
  for (const auto& [change, message] : cases) {
    setenv("BROKEN_DRIVER", change, 1);
    const Result result = run(test_driver("broken"));
    EXPECT_EQ(result.code, 2) << result.output;
    EXPECT_TRUE(contains(result.output, message)) << result.output;
    EXPECT_TRUE(contains(result.output, "the driver cannot be used; no check was run")) << result.output;
    EXPECT_FALSE(contains(result.output, "cannot be loaded")) << result.output;
  }
  unsetenv("BROKEN_DRIVER");
}

TEST(DriverCheck, OneCheckInThisProcess) {
  const Result passed = run("--run stream-order " OPENREG_SIM);
  EXPECT_EQ(passed.code, 0) << passed.output;
  const Result unknown = run("--run nothing " OPENREG_SIM);
  EXPECT_EQ(unknown.code, 2);
  EXPECT_TRUE(contains(unknown.output, "no such check: nothing")) << unknown.output;
  EXPECT_TRUE(contains(run("--help").output, "--run "));
}

TEST(DriverCheck, AFileOfTheWorkingDirectory) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(OPENREG_TEST_DRIVERS);
  const Result all = run("--only device-count minimal.so");
  const Result one = run("--run device-count minimal.so");
  std::filesystem::current_path(before);
  EXPECT_EQ(all.code, 0) << all.output;
  EXPECT_EQ(one.code, 0) << one.output;
}

TEST(DriverCheck, Arguments) {
  EXPECT_EQ(run("").code, 2);
  EXPECT_TRUE(contains(run("").output, "usage: openreg-driver-check"));
  EXPECT_EQ(run("--only nothing " OPENREG_SIM).code, 2);
  EXPECT_EQ(run("--timeout 0 " OPENREG_SIM).code, 2);
  EXPECT_EQ(run("a b").code, 2);
  EXPECT_EQ(run("--help").code, 0);
  EXPECT_TRUE(contains(run("--list").output, "stream-order "));
}
