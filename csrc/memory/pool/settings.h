// The allocator's settings, in the syntax of PYTORCH_ALLOC_CONF: "key:value,key:value".
//
// Values that OPENREG_ALLOC_CONF does not set come from PYTORCH_ALLOC_CONF, else from the defaults below.
// Settings are plain values: each pool has its own copy, guarded by the pool's mutex.
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

  size_t max_split_size = kUnlimited;                // blocks of at least this size are not split
  size_t max_non_split_rounding = size_t{20} << 20;  // limit for the unused rest of such a block
  size_t large_segment = size_t{20} << 20;           // segment size for requests of 1 to 10 MiB
  bool graph_capture_record_stream_reuse = false;    // see Note [Memory of captures] in pool.h
  double garbage_collection_threshold = 0;           // fraction of the limit; 0: off

  // The number of divisions between two powers of two when a size is rounded up: entry i applies to sizes
  // from 2^i MiB, the first also to smaller and the last also to larger sizes. Empty: sizes are rounded to
  // kGranularity.
  std::vector<size_t> roundup_power2_divisions;

  std::string text;  // the input of with_settings

  /// The block size for a request of that many bytes.
  size_t rounded(size_t bytes) const;
};

/// Returns `base` with the settings of `text`. Throws ValueError for an invalid key or value.
OPENREG_EXPORT Settings with_settings(Settings base, const std::string& text);

/// The settings of the environment. Throws as with_settings.
OPENREG_EXPORT Settings settings_of_environment();

/// Of one private pool.
struct PrivateSettings {
  /// Allocations from the default pool take free blocks of this pool before they fail.
  bool use_on_oom = false;
  /// Each block is a whole segment.
  bool no_split = false;
};

}  // namespace openreg
