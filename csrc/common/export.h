#pragma once

// Functions that the Python bindings call. All other symbols are hidden.
#define OPENREG_EXPORT __attribute__((visibility("default")))
