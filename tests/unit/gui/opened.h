// Sessions of the tests.
#pragma once

#include "gui/models/session.h"

namespace foregather::test {

/// The session of these runs; the test fails where it does not open.
gui::Session opened(std::vector<run::Run> runs);

/// The tiny FSDP2 sample, with these --set.
run::Run simulated_tiny(std::vector<std::string> sets);

}  // namespace foregather::test
