// Hexadecimal text form of IPC handles, exchanged between the tests and ipc_peer.cpp.
#pragma once

#include <cstddef>
#include <string>

template <typename Handle>
std::string to_hex(const Handle& handle) {
  static const char* digits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : handle.bytes) {
    text += digits[byte >> 4];
    text += digits[byte & 15];
  }
  return text;
}

template <typename Handle>
Handle from_hex(const std::string& text) {
  Handle handle{};
  for (size_t i = 0; i < sizeof(handle.bytes); ++i) {
    handle.bytes[i] = static_cast<unsigned char>(std::stoi(text.substr(2 * i, 2), nullptr, 16));
  }
  return handle;
}
