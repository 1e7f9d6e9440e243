// How pools cut and keep memory: the allocator's settings, in the way of PYTORCH_ALLOC_CONF.
//
// A text of settings is "key:value,key:value". What OPENREG_ALLOC_CONF does not say is as PYTORCH_ALLOC_CONF
// says, and else as below. Plain values: each pool has its own copy, guarded by the pool's mutex.
#pragma once

#include "common/export.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace openreg {

struct Settings {
  static constexpr size_t kGranularity = 512;
  static constexpr size_t kUnlimited = SIZE_MAX;

  size_t max_split_size = kUnlimited;                // blocks from this size on are handed out whole
  size_t max_non_split_rounding = size_t{20} << 20;  // how much larger than the request such a block may be
  size_t large_segment = size_t{20} << 20;           // asked of the runtime for requests of 1 to 10 MiB
  double garbage_collection_threshold = 0;           // part of the limit; 0: nothing is collected

  // Into how many steps the way from one power of two to the next is divided when a size is rounded up:
  // entry i for sizes from 2^i MiB, the first also for smaller, the last also for larger ones. Empty: sizes
  // are rounded to the granularity.
  std::vector<size_t> roundup_power2_divisions;

  std::string text;  // as it was given

  /// What a request of that many bytes takes.
  size_t rounded(size_t bytes) const;
};

/// `base` with what the text says. Throws ValueError, in words, for a key or value that makes no sense.
OPENREG_EXPORT Settings with_settings(Settings base, const std::string& text);

/// The settings of the environment. Throws as with_settings.
OPENREG_EXPORT Settings settings_of_environment();

}  // namespace openreg
