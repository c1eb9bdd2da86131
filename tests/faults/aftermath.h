// What a command left behind.
#pragma once

#include <string>

#include "tests/faults/fault.h"

namespace foregather::test {

/// What lies under the output's name before a command that replaces it runs.
void put_old_file(const LongCommand& command, const Stage& stage);

/// "1, old file": the exit code (128 and the signal, as shells have it) and what is under the
/// output's name now. Fails the test where that is half a file, or where something else is left
/// that should not be. `is_killed`: temporaries and journals may be.
std::string aftermath(const LongCommand& command, const Stage& stage, int code,
                      bool is_killed = false);

/// The command works when it is given another time, in the same folder.
void check_second_attempt(const LongCommand& command, const Stage& stage);

/// What the command said last.
std::string last_line(const Stage& stage);

}  // namespace foregather::test
