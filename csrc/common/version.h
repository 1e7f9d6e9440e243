// Differences between the supported versions of torch. Each entry names the version that makes it obsolete.
#pragma once

#include <torch/headeronly/version.h>

// Before torch 2.13, a structured kernel's outputs had dimension names. Remove when 2.13 is the oldest
// supported version.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define OR_NAMES_PARAMETER , at::DimnameList names
#define OR_NAMES_ARGUMENT , names
#else
#define OR_NAMES_PARAMETER
#define OR_NAMES_ARGUMENT
#endif

// Before torch 2.13, the CPU kernel of trace did not support Half and BFloat16. Remove when 2.13 is the
// oldest supported version.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define OR_TRACE_HAS_LOW_FLOATS 0
#else
#define OR_TRACE_HAS_LOW_FLOATS 1
#endif

// Before torch 2.13, the profiler's information on a collective had no sequence number. Remove when 2.13 is
// the oldest supported version.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 13
#define OR_COMMS_INFO_HAS_SEQUENCE 0
#else
#define OR_COMMS_INFO_HAS_SEQUENCE 1
#endif

// torch 2.14 added GeneratorImpl::philox_state. Remove when 2.14 is the oldest supported version.
#if TORCH_VERSION_MAJOR == 2 && TORCH_VERSION_MINOR < 14
#define OR_HAS_PHILOX_STATE 0
#else
#define OR_HAS_PHILOX_STATE 1
#endif

// Before torch 2.13, torch had no graphs for other devices, and the device guard had no isStreamCapturing.
// Remove when 2.13 is the oldest supported version.
#if __has_include(<ATen/core/GraphImplInterface.h>)
#define OR_HAS_GRAPHS 1
#define OR_OVERRIDE_WITH_GRAPHS override
#else
#define OR_HAS_GRAPHS 0
#define OR_OVERRIDE_WITH_GRAPHS
#endif
