// Kinds of operators, told by the words of their names: PyTorch has no tags for them.
#pragma once

#include <algorithm>
#include <span>
#include <string_view>

namespace openreg {

/// Whether a word of the name begins with one of `beginnings`. "aten::_index_put_impl_.out" has the words
/// index, put and impl.
inline bool has_token(std::string_view name, std::span<const std::string_view> beginnings) {
  name.remove_prefix(std::min(name.size(), name.rfind(':') + 1));
  name = name.substr(0, name.find('.'));
  while (!name.empty()) {
    const std::string_view word = name.substr(0, name.find('_'));
    if (std::ranges::any_of(beginnings, [&](std::string_view b) { return word.starts_with(b); })) {
      return true;
    }
    name.remove_prefix(std::min(name.size(), word.size() + 1));
  }
  return false;
}

}  // namespace openreg
