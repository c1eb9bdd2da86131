// What a file of Thunder traces holds, in counts, and its peak by Thunder's own estimator.
#pragma once

#include <cstdint>
#include <map>
#include <string_view>

#include "core/base/units.h"
#include "traces/thunder.h"

namespace foregather::traces {

struct ThunderFacts {
  std::string_view function;  ///< the first one's name
  std::int64_t arguments = 0, statements = 0, sub_symbols = 0, deletes = 0, fusions = 0;
  std::map<std::string_view, std::int64_t> collectives;  ///< by the symbol's last component; wait
  std::int64_t unknown_types = 0;                        ///< distinct results whose type is nowhere
  std::int64_t unparsed = 0;
  bool has_return = false;
  Bytes argument_bytes = 0, peak_bytes = 0, end_bytes = 0;
};

/// Counts, and walks all statements in the order of the file by the rules of
/// thunder.examine.memory_calculation (reference: Thunder §B.10), with the limits that the shared
/// data set: only parameters of the first def with a tensor type are arguments, names unpacked from
/// collections are not tracked, clearing a collection does nothing, an alias of what is not tracked
/// is a new tensor, and what has no type neither counts nor is tracked.
ThunderFacts thunder_facts(const ThunderFile& file);

/// Is this symbol a view by the estimator's list?
bool is_estimator_alias(std::string_view last_component);
/// A collective or a wait by the name's last component: its key in ThunderFacts::collectives, else
/// empty.
std::string_view collective_key(std::string_view last_component);
/// nvFusionN, TorchCompileN.
bool is_fusion(std::string_view callee);

}  // namespace foregather::traces
