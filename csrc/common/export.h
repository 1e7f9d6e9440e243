#pragma once

// What the bindings may call. Everything else stays inside the library.
#define OPENREG_EXPORT __attribute__((visibility("default")))
