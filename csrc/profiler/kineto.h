// Kineto, which is part of torch, and the differences between its versions. Each entry names the torch
// version that makes it obsolete.
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

/// Registers a factory: Kineto creates the profiler when it first profiles. Without torch's registry,
/// registers with Kineto directly. Remove when 2.13 is the oldest supported version.
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

/// The label of a stream's row. Remove when 2.13 is the oldest supported version: ResourceInfo is then an
/// aggregate.
template <typename Info = libkineto::ResourceInfo>
Info row_info(int32_t device, int32_t stream, std::string name) {
  if constexpr (std::is_aggregate_v<Info>) {
    return {.id = stream, .sortIndex = stream, .deviceId = device, .name = std::move(name)};
  } else {
    return Info(device, stream, stream, std::move(name));
  }
}

}  // namespace openreg
