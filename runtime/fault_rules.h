// The sets of fault rules: which calls they match, and when they fire. See openreg/faults.h.
//
// Thread safety: all members may be called from any thread. No function of the program is called under the
// lock, which is held during fork.
#pragma once

#include "entry_points.h"
#include "openreg/faults.h"

#include <bitset>
#include <cstdint>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace openreg {

struct EntryPointInfo {
  const char* name;
  CallTarget target;
  uint8_t traits;
};
const EntryPointInfo& entry_point_info(EntryPoint entry);

/// A call with the values that rules compare.
struct LocatedCall {
  EntryPoint entry{};
  int device = -1;
  std::optional<uint64_t> stream;
  size_t size = 0;
  const char* kernel = nullptr;
};

/// A rule that fires.
struct FiredRule {
  uint64_t set = 0;
  size_t rule = 0;
  uint64_t match = 0;
  orFaultAction action = orFaultActionCount;
  orError_t code = orSuccess;
  uint64_t delay_ns = 0;
  std::string message;  // empty: none
  uint64_t bit = 0;     // modulo the size
  uint64_t epoch = 0;   // of release()
};

class FaultRules {
 public:
  /// Created at the first call and leaked.
  static FaultRules& instance();

  /// Checks and copies the rules.
  [[nodiscard]] orError_t add(const orFaultRule* rules, size_t count, uint64_t& id);
  /// False if there is no such set.
  [[nodiscard]] bool remove(uint64_t id);
  void clear();
  [[nodiscard]] orError_t counts(uint64_t id, size_t rule, uint64_t& matched, uint64_t& fired);
  /// Counts the call in every rule that matches it, and returns the first rule that fires.
  [[nodiscard]] std::optional<FiredRule> match(const LocatedCall& call);

  /// Releases the hangs of all rules that have fired so far; `forever`: also of later ones.
  void release(bool forever);
  /// Whether a hang of a rule of `set`, which fired in `epoch`, is released: also if the set was removed.
  [[nodiscard]] bool is_released(uint64_t set, uint64_t epoch);

  /// The reason why a device is lost; empty: it is not.
  std::string loss(int device);
  void lose(int device, std::string reason);
  /// False if the device is not lost.
  bool restore(int device);

 private:
  struct Rule {
    orFaultRule given{};
    std::string kernel;
    std::string message;
    bool any_kernel = true;
    std::bitset<kEntryPointCount> entries;
    uint64_t matched = 0;
    uint64_t fired = 0;

    bool selects(const LocatedCall& call) const;
    bool fires() const;
  };
  struct Set {
    uint64_t id;
    std::vector<Rule> rules;
  };
  struct Loss {
    int device;
    std::string reason;
  };

  FaultRules() = default;
  static orError_t read(const orFaultRule& given, size_t index, Rule& rule);
  void update_calls();

  std::mutex mutex_;  // guards everything below
  std::list<Set> sets_;
  std::vector<Loss> losses_;
  uint64_t next_id_ = 1;
  uint64_t epoch_ = 0;  // number of releases
  bool released_forever_ = false;
};

}  // namespace openreg
