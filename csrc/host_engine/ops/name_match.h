// Classifies operators by name tokens, where PyTorch has no tag for them.
#pragma once

#include <algorithm>
#include <string_view>

namespace openreg {

/// Whether a token of the name begins with `beginning`. "aten::_index_put_impl_.out" has the tokens index,
/// put and impl.
inline bool has_token(std::string_view name, std::string_view beginning) {
  name.remove_prefix(std::min(name.size(), name.rfind(':') + 1));
  name = name.substr(0, name.find('.'));
  while (!name.empty()) {
    const std::string_view token = name.substr(0, name.find('_'));
    if (token.starts_with(beginning)) {
      return true;
    }
    name.remove_prefix(std::min(name.size(), token.size() + 1));
  }
  return false;
}

}  // namespace openreg
