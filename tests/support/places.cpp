#include "tests/support/places.h"

namespace foregather::test {

std::string source_dir() { return FOREGATHER_SOURCE_DIR; }
std::string data_dir() { return FOREGATHER_DATA; }
std::string program_path() { return FOREGATHER_BINARY; }

}  // namespace foregather::test
