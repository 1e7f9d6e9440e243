// What differs between the versions of torch that this code is built with. Each entry says with which oldest
// version it can go.
#pragma once

#include <torch/headeronly/version.h>

// Before torch 2.13 a structured kernel's outputs had names of dimensions. Goes when 2.13 is the oldest.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define OR_NAMES_PARAMETER , at::DimnameList names
#define OR_NAMES_ARGUMENT , names
#else
#define OR_NAMES_PARAMETER
#define OR_NAMES_ARGUMENT
#endif

// Before torch 2.13 streams of other devices could not be captured: no graphs, and the guard was not asked.
// Goes when 2.13 is the oldest.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#define OR_HAS_GRAPHS 1
#define OR_OVERRIDE_WITH_GRAPHS override
#else
#define OR_HAS_GRAPHS 0
#define OR_OVERRIDE_WITH_GRAPHS
#endif
