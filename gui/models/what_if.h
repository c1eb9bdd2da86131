// The what-if panel without its widgets: knobs, what they are turned to, what that changes.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/base/result.h"
#include "core/run/run.h"
#include "gui/models/knobs.h"
#include "gui/models/session.h"

namespace foregather::gui {

/// What `simulate` takes, and what is known of it.
struct WhatIfSource {
  std::string location;                 ///< SOURCE on the command line
  std::optional<std::string> workload;  ///< its text; absent: the source is something else
  std::string workload_path;            ///< for relative paths
  /// That the run was predicted with.
  std::vector<std::string> stored_sets, stored_passes;
  /// Before what is turned: the settings of a sweep's point, or those of `predicted`.
  std::vector<std::string> sets, passes;
  bool is_recorded = false;  ///< a recording, of a machine that it names
  bool is_text = false;      ///< what is simulated is `workload`, whatever the file has now
  /// Files that the workload was read with, where it is stored: paths and digests.
  std::vector<std::pair<std::string, std::string>> inputs = {};
  std::optional<std::int64_t> step = {};  ///< of a recording: the one that is simulated
  /// What the source must predict with `sets` and `passes` alone: it is no workload, whose text a
  /// run has, and may have changed.
  std::optional<OpenRun> predicted = {};
};

/// The figures that stay in view. Those of `simulate --json`: steady step of the slowest rank,
/// reserved bytes of the largest.
struct WhatIfFigures {
  std::optional<Ns> step, exposed;  ///< absent: out of memory
  std::optional<Bytes> peak;        ///< absent: the source says nothing of memory
  bool is_oom = false;
  bool is_of_all_steps = false;  ///< of a recording that has several
  friend bool operator==(const WhatIfFigures&, const WhatIfFigures&) = default;
};
WhatIfFigures what_if_figures(run::RunView run);
/// … of the steps that are compared with `beside`: all of a recording where that replays all.
WhatIfFigures what_if_figures(const run::Run& run, const run::Run& beside);

/// The step of a recording of several that figures are of, the slowest rank's; absent: it has one
/// alone, or its ranks have no such step in common.
std::optional<std::int64_t> step_to_turn(run::RunView measured);

/// "step 1.134 s (-8.9 %), exposed 17.4 ms (0.0 %), peak 51.21 GiB (+3.4 %)": and how far that is
/// from the baseline. "all steps" where that is what they are of.
std::string difference_text(const WhatIfFigures& now, const WhatIfFigures& baseline);

/// A source and its knobs. Values are kept by name: a knob that another one takes away (parameters
/// of another strategy) is not asked for, and is as it was turned when it comes back.
class WhatIf {
 public:
  WhatIf() = default;
  /// Knobs of a source whose workload cannot be read are those of a ready schedule: simulating it
  /// says why.
  WhatIf(WhatIfSource source, KnobNames names);

  bool empty() const { return source_.location.empty(); }
  const WhatIfSource& source() const { return source_; }
  const std::vector<Knob>& knobs() const { return knobs_; }

  /// What the knob is turned to; empty: as given.
  std::string value(const Knob& knob) const;
  /// Turns it. An empty value is as given. The knobs may be others then. False: it was so already.
  bool turn(const std::string& name, const std::string& value);
  /// Passes besides those that have a knob, as on the command line, with blanks between them.
  void set_further_passes(const std::string& text);
  const std::string& further_passes() const { return further_; }
  void reset();
  /// Turns all as the other is turned.
  void turn_as(const WhatIf& other);
  bool is_turned() const { return !values_.empty() || !further_.empty(); }

  std::vector<std::string> sets() const;    ///< for --set, in order
  std::vector<std::string> passes() const;  ///< for --what-if, in order
  /// That predicts what is shown: "foregather simulate 'a b.toml' --set train.micro_batch=2".
  std::string command_line() const;
  /// sets() and passes() in a few words: "micro_batch=2 reshard=never"; empty: there are none.
  std::string title() const;

 private:
  void find_knobs();

  WhatIfSource source_;
  KnobNames names_;
  std::vector<Knob> knobs_;
  std::map<std::string, std::string> values_;  ///< by name of the knob
  std::string further_;
};

/// The word as a shell takes it: quoted where it must be.
std::string shell_word(const std::string& word);

}  // namespace foregather::gui
