// The simulated device as a driver that the runtime loads.
#include "openreg/driver.h"

extern "C" const orDriver* openreg_sim_driver();

const orDriver* orGetDriver(void) {
  return openreg_sim_driver();
}
