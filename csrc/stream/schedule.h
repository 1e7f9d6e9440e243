// Whether operators return before they have run.
//
// The runtime owns the schedule; this caches it, so that a query costs one load.
#pragma once

#include "common/export.h"

#include <openreg/openreg.h>

#include <cstdint>
#include <utility>

namespace openreg {

/// The current schedule: initially from the environment, later from set_schedule.
OPENREG_EXPORT orSchedule schedule();

/// Work that is launched from now on follows `schedule`. Only the adversarial schedule uses the seed.
OPENREG_EXPORT void set_schedule(orSchedule schedule, uint64_t seed);

/// The schedule and its seed.
OPENREG_EXPORT std::pair<orSchedule, uint64_t> schedule_and_seed();

}  // namespace openreg
