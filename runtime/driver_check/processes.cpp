// Fork and exit. The runtime does not call the driver in a child that was forked after a device was opened.
#include "check.h"

#include <cstdlib>

namespace openreg::check {
namespace {

void use(const orDriver& driver, unsigned seed) {
  const Memory memory(driver, 4096);
  memory.write(pattern(4096, seed));
  REQUIRE(memory.read(4096) == pattern(4096, seed), "memory does not keep its bytes");
  const Stream stream(driver);
  bool ran = false;
  OK(launch(driver, stream, [&] { return ran = true, std::string(); }));
  stream.synchronize();
  REQUIRE(ran, "a kernel did not run");
}

void before_use(const orDriver& driver) {
  const bool child = in_forked_child([&] {
    OK(driver.device_open(0));
    use(driver, 1);
  });
  REQUIRE(child, "a child that was forked after init, before a device was opened, cannot use the device");
  OK(driver.device_open(0));
  use(driver, 2);
}

void after_use(const orDriver& driver) {
  use(driver, 1);
  const Memory memory(driver, 4096);
  memory.write(pattern(4096, 3));
  REQUIRE(in_forked_child([] {}), "a forked child does not end");
  REQUIRE(in_forked_child([] { std::exit(0); }), "a forked child does not end with exit()");
  REQUIRE(memory.read(4096) == pattern(4096, 3), "memory of the parent changed when its child ended");
  use(driver, 2);
}

void at_exit(const orDriver& driver) {
  use(driver, 1);
  auto* stream = new Stream(driver);  // work is pending when the process ends
  for (int i = 0; i < 1000; ++i) {
    OK(launch(driver, *stream, [] { return std::string(); }));
  }
  std::exit(kPassed);
}

constexpr Check kChecks[] = {
    {"fork-before-use", "a child that was forked before a device was opened can use the driver", &before_use,
     false},
    {"fork-after-use", "a fork does not disturb the parent, and the child can end", &after_use},
    {"exit", "a process can end with work pending", &at_exit},
};

}  // namespace

std::span<const Check> process_checks() {
  return kChecks;
}

}  // namespace openreg::check
