#include "tasks/version.h"

namespace foregather::tasks {

std::string_view version() { return "foregather " FOREGATHER_VERSION; }

}  // namespace foregather::tasks
