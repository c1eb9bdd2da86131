// Processes that tests begin, kill and outlive, and the sweeps that they leave.
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "core/run/sweep.h"

namespace foregather::test {

/// Begins the program `arguments[0]`, with `environment` ("NAME=VALUE") added to this one's. What
/// it prints goes to the file `out`.
pid_t begin_process(const std::vector<std::string>& arguments,
                    const std::vector<std::string>& environment, const std::string& out);

/// Waits for a process. Its exit code, or minus the signal that ended it; -1000: it had to be
/// killed after two minutes (ten under sanitizers).
int end_of(pid_t child);

/// What a file holds; empty where there is none.
std::string text_of(const std::string& path);

/// The rows of a sweep's database. A failed test where it cannot be read.
std::vector<run::SweepPoint> stored_points(const std::string& path);

}  // namespace foregather::test
