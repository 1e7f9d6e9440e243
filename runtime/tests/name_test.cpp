// The name of the device. Each test runs in a new process, since a process has one name.
#include "support.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

TEST(NameDeathTest, HasADefault) {
  in_fresh_process([] {
    EXPECT_STREQ(orGetDeviceName(), "openreg");
    EXPECT_OK(orSetDeviceName("openreg"));
    EXPECT_FAILS(orErrorNotPermitted, orSetDeviceName("foo"), "already named 'openreg'");
    EXPECT_STREQ(orGetDeviceName(), "openreg");
  });
}

TEST(NameDeathTest, IsSetOnce) {
  in_fresh_process([] {
    {
      const std::string name = "foo";  // copied
      ASSERT_OK(orSetDeviceName(name.c_str()));
    }
    EXPECT_STREQ(orGetDeviceName(), "foo");
    EXPECT_OK(orSetDeviceName("foo"));
    EXPECT_FAILS(orErrorNotPermitted, orSetDeviceName("bar"), "already named 'foo'");
  });
}

TEST(NameDeathTest, IsChecked) {
  in_fresh_process([] {
    EXPECT_FAILS(orErrorInvalidValue, orSetDeviceName(nullptr), "NULL");
    for (const char* name : {"", "Foo", "1foo", "_foo", "foo bar", "foo:0", "f\xc3\xbc", "foo1", "a1b"}) {
      EXPECT_FAILS(orErrorInvalidValue, orSetDeviceName(name), "lower-case letters");
    }
    EXPECT_FAILS(orErrorInvalidValue, orSetDeviceName("privateuseone"), "torch's own name");
    EXPECT_FAILS(orErrorInvalidValue, orSetDeviceName(std::string(64, 'a').c_str()), "1 to 63");
    EXPECT_OK(orSetDeviceName(std::string(63, 'a').c_str()));
  });
}

TEST(NameDeathTest, OneOfManyThreadsSetsIt) {
  in_fresh_process([] {
    std::vector<std::thread> threads;
    std::atomic<int> set{0};
    for (int i = 0; i < 8; ++i) {
      threads.emplace_back([&, i] {
        if (orSetDeviceName(("foo" + std::string(1, static_cast<char>('a' + i))).c_str()) == orSuccess) ++set;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(set, 1);
    EXPECT_EQ(std::string(orGetDeviceName()).substr(0, 3), "foo");
  });
}

TEST(NameDeathTest, BeginsTheSettings) {
  in_fresh_process([] {
    ASSERT_OK(orSetDeviceName("foo"));
    setenv("OPENREG_SCHEDULE", "no schedule", 1);
    setenv("FOO_SCHEDULE", "blocking", 1);
    orSchedule schedule = orScheduleAsync;
    uint64_t seed = 0;
    ASSERT_OK(orGetSchedule(&schedule, &seed));
    EXPECT_EQ(schedule, orScheduleBlocking);
  });
  in_fresh_process([] {
    ASSERT_OK(orSetDeviceName("foo"));
    setenv("FOO_SEED", "one", 1);
    int count = 0;
    EXPECT_FAILS(orErrorInvalidValue, orGetDeviceCount(&count), "FOO_SEED is 'one'");
  });
}

}  // namespace
