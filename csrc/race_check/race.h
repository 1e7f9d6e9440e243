// A race: two accesses to the same bytes, at least one of which writes, without an order between them.
//
// Thread safety: values; RaceLog locks.
#pragma once

#include "common/export.h"

#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

namespace openreg::races {

struct RaceAccess {
  std::string op;  // "aten::add.Tensor"
  bool write;
  std::string stream;       // "stream 3 of openreg:0", or "the host"
  std::string site;         // "train.py:12 in step"; empty if unknown
  std::string captured_at;  // the same for the capture, if the access is in a graph
};

struct OPENREG_EXPORT Race {
  RaceAccess first;
  RaceAccess second;
  uintptr_t begin;  // the bytes of the second access
  uintptr_t end;
  std::string allocated_at;  // empty if unknown
  std::string advice;        // the call that orders the accesses

  std::string text() const;
};

/// The races that were found, one for each pair of operators and lines.
class OPENREG_EXPORT RaceLog {
 public:
  /// No effect if the pair is known. Prints the race to stderr if printing is on.
  void add(Race race);
  void set_printing(bool on);
  /// The races from number `first` on.
  std::vector<Race> from(size_t first) const;
  size_t size() const;
  /// Pairs that are known are reported again.
  void forget_pairs();

 private:
  mutable std::mutex mutex_;  // guards the rest
  bool printing_ = false;
  std::vector<Race> races_;
  std::set<std::string> known_;
};

}  // namespace openreg::races
