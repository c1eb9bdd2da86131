// What can be turned about a source before it is simulated again.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/plan/workload.h"

namespace foregather::gui {

/// A key of the workload, or a pass of --what-if.
struct Knob {
  enum class Kind : std::uint8_t {
    choice,  ///< one of `choices`
    number,  ///< typed, doubled or halved; of `choices`, where it takes words as well
    text,
  };
  std::string name;   ///< a key, "train.micro_batch"; of a pass what stands before the value
  std::string group;  ///< "train", …; "passes"
  std::string label;  ///< "micro batch"
  std::string help;
  bool is_pass = false;
  Kind kind = Kind::choice;
  std::vector<std::string> choices;
  std::string given;  ///< what holds while it is not turned: a value, or words

  /// As an argument of the command line: "train.micro_batch=2", "reshard=never".
  std::string argument(const std::string& value) const;
};

/// What a machine can be called, for knobs that take names.
struct KnobNames {
  std::vector<std::string> hardware, topologies, fabrics;
};

/// The keys that have an effect on the workload as it is turned, in the order of the documentation,
/// and the passes. What they are given follows from `written`, what the source says itself by key,
/// and from `given`, the workload before anything was turned; other keys have their default.
std::vector<Knob> workload_knobs(const plan::Workload& workload,
                                 const std::vector<std::pair<std::string, std::string>>& written,
                                 const plan::Workload& given, const KnobNames& names);

/// Those of a schedule that is ready: the machine (of a recording the one it was made on) and the
/// passes.
std::vector<Knob> schedule_knobs(const KnobNames& names, bool is_recorded);

/// What a number becomes by one turn up or down: twice or half of it; 1 halved is 0.5 where the
/// knob takes fractions. Empty: the text is no number, or it cannot go on.
std::string turned(const Knob& knob, const std::string& value, bool up);

}  // namespace foregather::gui
