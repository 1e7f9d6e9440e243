#include "common/check.h"

#include <string>
#include <string_view>

namespace openreg {
namespace {

// Message prefixes with CUDA's wording, which programs match.
std::string message_prefix(orError_t error) {
  const std::string name = orGetDeviceName();
  if (error == orErrorForked) {
    return "Cannot re-initialize " + name + " in forked subprocess. To use " + name +
           " with multiprocessing, you must use the 'spawn' start method: ";
  }
  return name + (orGetErrorClass(error) == orClassOutOfMemory ? " out of memory: " : " error: ");
}

}  // namespace

void raise(orError_t error, const char* call, c10::SourceLocation where) {
  const std::string_view text(call);
  std::string message = message_prefix(error);
  message += orGetLastErrorMessage();
  message += " (";
  message += orGetErrorName(error);
  message += " from ";
  message += text.substr(0, text.find('('));
  message += ")";
  if (orGetErrorClass(error) == orClassOutOfMemory) {
    throw c10::OutOfMemoryError(where, std::move(message));
  }
  if (error == orErrorForked) {
    throw c10::Error(where, std::move(message));
  }
  throw c10::AcceleratorError(where, static_cast<int32_t>(error), std::move(message));
}

}  // namespace openreg
