// Whether operators return before they have run.
//
// The runtime decides when work runs; this remembers which way it decides, so that asking costs one load.
#pragma once

#include "common/export.h"

#include <openreg/openreg.h>

#include <cstdint>
#include <utility>

namespace openreg {

/// The schedule in force: from the environment at first, from set_schedule afterwards.
OPENREG_EXPORT orSchedule schedule();

/// Work that is launched from now on follows `schedule`. The seed matters to the adversarial one.
OPENREG_EXPORT void set_schedule(orSchedule schedule, uint64_t seed);

/// The schedule and its seed.
OPENREG_EXPORT std::pair<orSchedule, uint64_t> schedule_and_seed();

}  // namespace openreg
