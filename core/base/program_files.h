// Files of ours that belong to the program.
#pragma once

#include <string>
#include <string_view>

namespace foregather {

/// Path of a library: beside the program, in ../lib/foregather as installed, or in `build_folder`,
/// where the build tree has it, relative to the program. Empty: it is in none of them.
std::string own_library(std::string_view file, std::string_view build_folder = ".");

/// The folder of samples as installed, ../share/foregather/samples beside the program's. Empty:
/// there is none.
std::string installed_samples();

}  // namespace foregather
