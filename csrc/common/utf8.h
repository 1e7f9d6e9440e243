// Cuts UTF-8 text between characters.
#pragma once

#include <cstddef>
#include <string_view>

namespace openreg {

/// The length of `text`, or the largest one up to `limit` that does not end inside a character.
inline size_t length_up_to(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return limit;
}

}  // namespace openreg
