// The commands that take long enough for something to happen meanwhile.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/support/scratch.h"

namespace foregather::test {

using Texts = std::vector<std::string>;

struct LongCommand {
  enum class Writes {
    whole,     ///< a new file in place of the old one, at the end
    in_place,  ///< rows, as they come, into a file that is new
  };

  std::string name;  ///< as the page has it
  Texts arguments;   ///< but the output, which goes into an empty folder
  std::string output;
  Writes writes = Writes::whole;
  /// Is the file complete, with `reference` written by an undisturbed command?
  std::function<bool(const std::string& file, const std::string& reference)> is_whole;
  /// Of files written in place: how many rows it holds; fails the test where one differs from the
  /// reference's.
  std::function<std::size_t(const std::string& file, const std::string& reference)> rows = {};
  bool writes_long = false;     ///< a signal meets it while it writes; else half-way
  bool passes_signals = false;  ///< to what it runs, and completes its output then
  bool uses_clock = false;
  Texts behind = {};  ///< arguments behind the output
  Texts resume = {};  ///< what a second attempt takes besides; "new": another output

  Texts command(const std::string& folder) const;
};

/// Those whose inputs are there; these are made in `inputs`.
std::vector<LongCommand> long_commands(const Scratch& inputs);

/// All names, in the page's order.
Texts long_command_names();

}  // namespace foregather::test
