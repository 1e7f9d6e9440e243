// Kineto, which is inside of torch, and what differs between the versions of it. Each entry says with which
// oldest torch it can go.
#pragma once

#include <IActivityProfiler.h>
#include <libkineto.h>
#include <output_base.h>

#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
#include <torch/csrc/profiler/standalone/privateuse1_profiler.h>
#endif

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace openreg {

/// Has Kineto make one when it first profiles. Where torch has no registry for this, Kineto is told by
/// itself. Goes when 2.13 is the oldest.
template <typename Profiler>
bool register_profiler() {
  const auto factory = [] { return std::unique_ptr<libkineto::IActivityProfiler>(new Profiler); };
#if __has_include(<torch/csrc/profiler/standalone/privateuse1_profiler.h>)
  torch::profiler::impl::PrivateUse1ProfilerRegistry::instance().registerFactory(factory);
#else
  libkineto::api().registerProfilerFactory(factory);
#endif
  return true;
}

/// The name of a stream's row. Goes when 2.13 is the oldest: it is an aggregate.
template <typename Info = libkineto::ResourceInfo>
Info row_info(int32_t device, int32_t stream, std::string name) {
  if constexpr (std::is_aggregate_v<Info>) {
    return {.id = stream, .sortIndex = stream, .deviceId = device, .name = std::move(name)};
  } else {
    return Info(device, stream, stream, std::move(name));
  }
}

}  // namespace openreg
