// The schedule of the process, and the random draws of the adversarial schedule.
//
// Note [Adversarial schedule]
// Each submitted operation draws a delay from the seed and its submission number: the earliest time at which
// a worker may run it, at most a few milliseconds ahead, and whether the worker yields to other streams after
// it. The time is absolute, so delays do not add up: a chain of any length may run a few milliseconds after
// its last submission. A host thread that waits runs the work without delay. The order within a stream and
// through events is preserved: only the choice among ready streams is random.
#pragma once

#include "openreg/types.h"

#include <cstdint>

namespace openreg::sim {

struct Delay {
  int64_t not_before_ns = 0;  // 0: no delay
  bool yields = false;
};

void set_schedule(orSchedule schedule, uint64_t seed);
orSchedule current_schedule();

/// Draws the delay of the next submission; none under other schedules.
Delay draw_delay();
/// Draws which of `count` ready streams a worker runs; 0, the highest priority, under other schedules.
uint32_t draw_pick(uint32_t count);

int64_t now_ns();

}  // namespace openreg::sim
