// Where this build is, and what its tests read. Paths are in one source alone, so that all others
// compile to the same in every clone.
#pragma once

#include <string>

namespace foregather::test {

/// The folder of the sources.
std::string source_dir();
/// The folder of recorded data of others that CMake was told; empty: none.
std::string data_dir();
/// The program `foregather` of this build.
std::string program_path();

}  // namespace foregather::test
