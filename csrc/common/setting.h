// Settings: environment variables that begin with the name of the device, such as OPENREG_ALLOC_CONF.
#pragma once

#include <openreg/openreg.h>

#include <cctype>
#include <string>

namespace openreg {

/// The environment variable of a setting: "OPENREG_ALLOC_CONF" for "ALLOC_CONF" and the default name.
inline std::string setting_name(const char* setting) {
  std::string name = orGetDeviceName();
  for (char& c : name) {
    c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  }
  return name + "_" + setting;
}

}  // namespace openreg
