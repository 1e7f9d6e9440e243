// The schedule of the process, and what chance decides under the adversarial one.
//
// Note [Adversarial]
// Each submitted operation draws its delay from the seed and the number of its submission: an earliest moment
// at which a worker may run it, at most a few milliseconds away, and whether other streams get a turn behind
// it. A moment, not a delay: however long a chain of operations is, all of it may run a few milliseconds
// after the last submission. A host that waits runs the work regardless. Order within a stream and through
// events is untouched, since only the choice among what may run is.
#pragma once

#include "openreg/types.h"

#include <cstdint>

namespace openreg::sim {

struct Delay {
  int64_t not_before_ns = 0;  // 0: at once
  bool yields = false;
};

void set_schedule(orSchedule schedule, uint64_t seed);
orSchedule current_schedule();

/// The delay of the next submission. Under other schedules: none.
Delay draw_delay();
/// Which of `count` streams a worker takes; 0, the most urgent, under other schedules.
uint32_t draw_pick(uint32_t count);

int64_t now_ns();

}  // namespace openreg::sim
