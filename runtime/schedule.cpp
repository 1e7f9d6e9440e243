// The schedule of the driver, and its settings.
#include "name.h"
#include "runtime.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>

namespace openreg {

orError_t Runtime::schedule_from_environment() {
  orSchedule schedule = orScheduleAsync;
  const std::string schedule_setting = setting_name("SCHEDULE"), seed_setting = setting_name("SEED");
  if (const char* name = std::getenv(schedule_setting.c_str()); name && *name) {
    if (!std::strcmp(name, "async")) {
      schedule = orScheduleAsync;
    } else if (!std::strcmp(name, "blocking")) {
      schedule = orScheduleBlocking;
    } else if (!std::strcmp(name, "adversarial")) {
      schedule = orScheduleAdversarial;
    } else {
      return fail(orErrorInvalidValue, "%s is '%s': use async, blocking or adversarial",
                  schedule_setting.c_str(), name);
    }
  }
  uint64_t seed = 0;
  if (const char* text = std::getenv(seed_setting.c_str()); text && *text) {
    char* end = nullptr;
    errno = 0;
    seed = std::strtoull(text, &end, 10);
    if (*end || errno || *text < '0' || *text > '9') {
      return fail(orErrorInvalidValue, "%s is '%s': use a number from 0 to 18446744073709551615",
                  seed_setting.c_str(), text);
    }
  }
  if (schedule == orScheduleAsync && seed == 0) return orSuccess;
  return set_schedule(schedule, seed);
}

orError_t Runtime::set_schedule(orSchedule schedule, uint64_t seed) {
  std::lock_guard lock(schedule_mutex_);
  if (driver_.set_schedule) {
    OR_RETURN_IF_ERROR(from_driver(driver_.set_schedule(schedule, seed)));
  } else if (schedule != orScheduleAsync) {
    return fail(orErrorNotSupported, "the driver '%s' supports only the schedule async", driver_.name);
  }
  schedule_ = schedule;
  seed_ = seed;
  return orSuccess;
}

void Runtime::schedule(orSchedule& schedule, uint64_t& seed) {
  std::lock_guard lock(schedule_mutex_);
  schedule = schedule_;
  seed = seed_;
}

}  // namespace openreg
