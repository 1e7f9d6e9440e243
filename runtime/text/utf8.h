// Text from drivers, kernels and other processes, as UTF-8: readers of messages, such as Python, reject other
// bytes.
#pragma once

#include <cstddef>
#include <string_view>

namespace openreg {

/// The bytes of the character at `text`: 0 if it is invalid. `cut` is set if the text ends inside a
/// character.
inline size_t utf8_length(const char* text, bool& cut) {
  const auto byte = [text](size_t index) { return static_cast<unsigned char>(text[index]); };
  const unsigned char lead = byte(0);
  cut = false;
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  const size_t length = lead < 0xe0 ? 2 : lead < 0xf0 ? 3 : 4;
  // The range of the second byte excludes overlong forms, surrogates, and values beyond U+10FFFF.
  const unsigned low = lead == 0xe0 ? 0xa0 : lead == 0xf0 ? 0x90 : 0x80;
  const unsigned high = lead == 0xed ? 0x9f : lead == 0xf4 ? 0x8f : 0xbf;
  for (size_t i = 1; i < length; ++i) {
    cut = byte(i) == 0;
    if (byte(i) < (i == 1 ? low : 0x80) || byte(i) > (i == 1 ? high : 0xbf)) return 0;
  }
  return length;
}

inline bool is_utf8(const char* text) {
  bool cut = false;
  while (*text != '\0') {
    const size_t length = utf8_length(text, cut);
    if (length == 0) return false;
    text += length;
  }
  return true;
}

/// Replaces each invalid byte with '?', in place, and removes an incomplete character at the end: a buffer
/// has cut it.
inline void make_utf8(char* text) {
  bool cut = false;
  while (*text != '\0') {
    const size_t length = utf8_length(text, cut);
    if (length == 0 && cut) {
      *text = '\0';
    } else if (length == 0) {
      *text++ = '?';
    } else {
      text += length;
    }
  }
}

/// The length of `text`, or the largest one up to `limit` that does not end inside a character.
inline size_t length_up_to(std::string_view text, size_t limit) {
  if (text.size() <= limit) return text.size();
  while (limit > 0 && (static_cast<unsigned char>(text[limit]) & 0xc0) == 0x80) --limit;
  return limit;
}

}  // namespace openreg
