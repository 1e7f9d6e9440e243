#include "memory/pool/settings.h"

#include "common/setting.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cstdlib>
#include <string_view>

namespace openreg {
namespace {

constexpr size_t kMiB = size_t{1} << 20;
constexpr size_t kIntervals = 16;  // 1 MiB to 32 GiB
constexpr const char* kKeys =
    "max_split_size_mb, max_non_split_rounding_mb, large_segment_size_mb, garbage_collection_threshold, "
    "roundup_power2_divisions and graph_capture_record_stream_reuse";

std::string_view trimmed(std::string_view text) {
  constexpr const char* kSpace = " \t\n";
  const size_t begin = text.find_first_not_of(kSpace);
  return begin == text.npos ? std::string_view()
                            : text.substr(begin, text.find_last_not_of(kSpace) - begin + 1);
}

// Returns the text before the separator, ignoring separators in brackets, and removes both from `rest`.
std::string_view next(std::string_view& rest, char separator) {
  int depth = 0;
  size_t end = 0;
  for (; end < rest.size() && (depth > 0 || rest[end] != separator); ++end) {
    depth += rest[end] == '[' ? 1 : rest[end] == ']' ? -1 : 0;
  }
  const std::string_view found = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return trimmed(found);
}

template <typename Number>
Number number(std::string_view key, std::string_view text, Number least, Number most, const char* expected) {
  Number value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  TORCH_CHECK_VALUE(
      error == std::errc() && end == text.data() + text.size() && value >= least && value <= most,
      "allocator setting ", key, " is '", text, "': use ", expected);
  return value;
}

size_t mebibytes(std::string_view key, std::string_view text, size_t least, const char* expected) {
  return number<size_t>(key, text, least, size_t{1} << 40, expected) * kMiB;
}

size_t divisions(std::string_view key, std::string_view text) {
  constexpr const char* kExpected = "a power of two as the number of divisions";
  const auto value = number<size_t>(key, text, 1, size_t{1} << 20, kExpected);
  TORCH_CHECK_VALUE(std::has_single_bit(value), "allocator setting ", key, " is '", text, "': use ",
                    kExpected);
  return value;
}

// "8", or "[256:1,512:2,>:4]": 1 division from 256 MiB, 2 from 512 MiB, 4 above. The first entry also applies
// to smaller sizes.
std::vector<size_t> all_divisions(std::string_view key, std::string_view text) {
  if (!text.starts_with('[')) {
    return std::vector<size_t>(kIntervals, divisions(key, text));
  }
  TORCH_CHECK_VALUE(text.ends_with(']'), "allocator setting ", key, " is '", text,
                    "': a list must end with ']'");
  std::vector<size_t> all(kIntervals, 0);
  std::string_view rest = text.substr(1, text.size() - 2);
  size_t begin = 0;
  for (bool first = true; !rest.empty(); first = false) {
    std::string_view value = next(rest, ',');
    const std::string_view size = next(value, ':');
    if (size != ">") {
      constexpr const char* kExpected =
          "increasing powers of two from 1 to 32768 as sizes in MiB, and '>' at the end";
      const auto least = number<size_t>(key, size, 1, size_t{1} << (kIntervals - 1), kExpected);
      const auto interval = static_cast<size_t>(std::bit_width(least) - 1);
      TORCH_CHECK_VALUE(std::has_single_bit(least) && (first || interval >= begin), "allocator setting ", key,
                        " has the size '", size, "': use ", kExpected);
      std::fill(all.begin() + static_cast<ptrdiff_t>(first ? 0 : interval), all.end(),
                divisions(key, trimmed(value)));
      begin = interval + 1;
    } else {
      TORCH_CHECK_VALUE(rest.empty() && !first, "allocator setting ", key, " is '", text,
                        "': '>' must be the last entry, after at least one size");
      std::fill(all.begin() + static_cast<ptrdiff_t>(begin), all.end(), divisions(key, trimmed(value)));
    }
  }
  TORCH_CHECK_VALUE(begin > 0, "allocator setting ", key, " is an empty list");
  return all;
}

void set(Settings& settings, std::string_view key, std::string_view value) {
  if (key == "max_split_size_mb") {
    settings.max_split_size = mebibytes(key, value, 21, "a number of MiB above 20");
  } else if (key == "max_non_split_rounding_mb") {
    settings.max_non_split_rounding = mebibytes(key, value, 21, "a number of MiB above 20");
  } else if (key == "large_segment_size_mb") {
    settings.large_segment = mebibytes(key, value, 20, "a number of MiB, at least 20");
  } else if (key == "garbage_collection_threshold") {
    settings.garbage_collection_threshold =
        number<double>(key, value, 0.0, 1.0, "a number between 0 and 1, a fraction of the device's memory");
  } else if (key == "roundup_power2_divisions") {
    settings.roundup_power2_divisions = all_divisions(key, value);
  } else if (key == "graph_capture_record_stream_reuse") {
    TORCH_CHECK_VALUE(value == "True" || value == "False", "allocator setting ", key, " is '", value,
                      "': use True or False");
    settings.graph_capture_record_stream_reuse = value == "True";
  } else if (key == "expandable_segments") {
    TORCH_CHECK_VALUE(value == "False", "allocator setting ", key, " is '", value,
                      "': expandable segments are not supported; omit the setting, or use False");
  } else {
    TORCH_CHECK_VALUE(false, "unknown allocator setting '", key, "': the settings are ", kKeys,
                      "; set those of pinned memory in PYTORCH_ALLOC_CONF");
  }
}

}  // namespace

size_t Settings::rounded(size_t bytes) const {
  size_t step = kGranularity;
  if (!roundup_power2_divisions.empty()) {
    const size_t power = std::bit_floor(bytes);
    const auto interval = static_cast<size_t>(std::bit_width(power / kMiB | 1) - 1);
    const size_t parts = roundup_power2_divisions[std::min(interval, roundup_power2_divisions.size() - 1)];
    if (parts > 1 && bytes > kGranularity * parts) {
      step = power / parts;
    }
  }
  return (bytes + step - 1) / step * step;
}

Settings with_settings(Settings base, const std::string& text) {
  std::string_view rest = text;
  while (!rest.empty()) {
    std::string_view value = next(rest, ',');
    if (value.empty()) {
      continue;
    }
    const std::string_view setting = value;
    const std::string_view key = next(value, ':');
    TORCH_CHECK_VALUE(!key.empty() && !value.empty(), "allocator setting '", setting,
                      "' is not of the form key:value");
    set(base, key, trimmed(value));
  }
  TORCH_CHECK_VALUE(base.max_split_size > base.large_segment, "allocator setting max_split_size_mb is ",
                    base.max_split_size / kMiB, ", and large_segment_size_mb is ", base.large_segment / kMiB,
                    ": max_split_size_mb must be larger, because blocks of large segments are split");
  base.text = text;
  return base;
}

Settings settings_of_environment() {
  using Torch = c10::CachingAllocator::AcceleratorAllocatorConfig;
  Settings settings;
  settings.max_split_size = Torch::max_split_size();
  settings.max_non_split_rounding = Torch::max_non_split_rounding_size();
  settings.large_segment = Torch::large_segment_size();
  settings.garbage_collection_threshold = Torch::garbage_collection_threshold();
  const auto& given = Torch::roundup_power2_divisions();
  if (std::ranges::any_of(given, [](size_t parts) { return parts > 1; })) {
    settings.roundup_power2_divisions = given;
  }
  const std::string variable = setting_name("ALLOC_CONF");
  const char* text = std::getenv(variable.c_str());
  try {
    return with_settings(settings, text == nullptr ? "" : text);
  } catch (const c10::ValueError& error) {
    TORCH_CHECK_VALUE(false, variable, ": ", error.what_without_backtrace());
  }
}

}  // namespace openreg
