#include "support.h"

#include <mutex>
#include <string>
#include <thread>
#include <vector>

using namespace support;

namespace {

// Collects the trace records of ranges and marks: "+name" and "-name" for the begin and end of a range,
// "!name" for a mark.
class Listener {
 public:
  Listener() { EXPECT_OK(orTraceSubscribe(&Listener::callback, this)); }
  ~Listener() { EXPECT_OK(orTraceUnsubscribe()); }
  std::vector<std::string> records() {
    std::lock_guard lock(mutex_);
    return records_;
  }

 private:
  static void callback(const orTraceRecord* record, void* user) {
    auto* self = static_cast<Listener*>(user);
    std::lock_guard lock(self->mutex_);
    EXPECT_EQ(record->device, -1);
    if (record->phase == orTraceFinished) EXPECT_LE(record->start_ns, record->end_ns);
    if (record->kind == orTraceRange) {
      self->records_.push_back((record->phase == orTraceLaunched ? "+" : "-") + std::string(record->name));
    } else if (record->phase == orTraceFinished) {
      self->records_.push_back("!" + std::string(record->name));
    }
  }
  std::mutex mutex_;
  std::vector<std::string> records_;
};

using Records = std::vector<std::string>;

}  // namespace

TEST(Range, NestedRangesAreTraced) {
  Listener listener;
  int depth = -1;
  std::string name = "outer";
  ASSERT_OK(orTraceRangePush(name.c_str(), &depth));
  name = "gone!";
  EXPECT_EQ(depth, 0);
  ASSERT_OK(orTraceRangePush("inner", &depth));
  EXPECT_EQ(depth, 1);
  ASSERT_OK(orTraceMark("now"));
  ASSERT_OK(orTraceRangePop(&depth));
  EXPECT_EQ(depth, 1);
  ASSERT_OK(orTraceRangePop(nullptr));
  EXPECT_EQ(listener.records(), (Records{"+outer", "+inner", "!now", "-inner", "-outer"}));
}

TEST(Range, DepthIsCorrectWithoutASubscriber) {
  int depth = -1;
  ASSERT_OK(orTraceRangePush("unseen", nullptr));
  {
    Listener listener;
    ASSERT_OK(orTraceRangePush("seen", &depth));
    EXPECT_EQ(depth, 1);
    ASSERT_OK(orTraceRangePop(&depth));
    ASSERT_OK(orTraceRangePop(&depth));
    EXPECT_EQ(depth, 0);
    EXPECT_EQ(listener.records(), (Records{"+seen", "-seen"}));
  }
  EXPECT_FAILS(orErrorNotPermitted, orTraceRangePop(nullptr), "no open range");
}

TEST(Range, PushedRangesArePerThreadAndEndWithTheThread) {
  Listener listener;
  std::thread([] {
    EXPECT_OK(orTraceRangePush("left open", nullptr));
    EXPECT_OK(orTraceRangePush("this too", nullptr));
  }).join();
  EXPECT_FAILS(orErrorNotPermitted, orTraceRangePop(nullptr), "no open range");
  EXPECT_EQ(listener.records(), (Records{"+left open", "+this too", "-this too", "-left open"}));
}

TEST(Range, StartedRangesEndOnAnyThreadOnce) {
  Listener listener;
  uint64_t a = 0, b = 0;
  ASSERT_OK(orTraceRangeStart("a", &a));
  ASSERT_OK(orTraceRangeStart("b", &b));
  EXPECT_NE(a, b);
  ASSERT_OK(orTraceRangeEnd(a));
  std::thread([&] { EXPECT_OK(orTraceRangeEnd(b)); }).join();
  EXPECT_FAILS(orErrorInvalidValue, orTraceRangeEnd(a), "no range with the id");
  EXPECT_EQ(listener.records(), (Records{"+a", "+b", "-a", "-b"}));
}

TEST(Range, NullArgumentsAreRefused) {
  uint64_t id;
  EXPECT_FAILS(orErrorInvalidValue, orTraceRangePush(nullptr, nullptr), "name is NULL");
  EXPECT_FAILS(orErrorInvalidValue, orTraceRangeStart(nullptr, &id), "name is NULL");
  EXPECT_FAILS(orErrorInvalidValue, orTraceRangeStart("x", nullptr), "id is NULL");
  EXPECT_FAILS(orErrorInvalidValue, orTraceMark(nullptr), "name is NULL");
}
