#include "cli/build_info.h"

#include <fmt/format.h>

#include "cli/revision.h"  // made by cmake/Revision.cmake
#include "tasks/version.h"

namespace foregather::cli {

std::string build_text() {
  const std::string revision = FOREGATHER_REVISION;
  return fmt::format("{}\n{}{}, {}, {}\n", tasks::version(),
                     revision.empty() ? "" : "revision " + revision + ", ", FOREGATHER_BUILD_TYPE,
                     FOREGATHER_COMPILER, FOREGATHER_MACHINE);
}

}  // namespace foregather::cli
