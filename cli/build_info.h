#pragma once

#include <string>

namespace foregather::cli {

/// What `foregather --version` prints: the version, then the revision of the sources (where they
/// are a git checkout), build type, compiler and machine.
std::string build_text();

}  // namespace foregather::cli
