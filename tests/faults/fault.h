// What can happen to a command, and what is seen then.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tests/faults/long_commands.h"

namespace foregather::test {

/// Where commands run: a folder for the output, one for TMPDIR, and what an undisturbed run left.
struct Stage {
  const Scratch& scratch;
  std::string reference;  ///< the file that it wrote
  double seconds = 0;     ///< that it took

  std::string folder() const { return scratch.path("place"); }
  std::string said() const { return scratch.path("said"); }
  Texts environment() const {
    return {"TMPDIR=" + scratch.path("tmp"), "XDG_RUNTIME_DIR=" + scratch.path("")};
  }
};

struct Fault {
  std::string name;  ///< as the page has it
  /// Runs the command into stage.folder(), which is there and empty unless the fault says
  /// otherwise, under the fault; the cell of the table. Nothing: it cannot be tried here.
  std::function<std::optional<std::string>(const LongCommand&, const Stage&)> happen;
};

const std::vector<Fault>& faults();

}  // namespace foregather::test
