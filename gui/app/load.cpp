#include "gui/app/load.h"

#include "tasks/any_run.h"

namespace foregather::gui {

Result<OpenRun> load_run(const std::string& location) {
  auto any = tasks::load_any_run(location);
  if (!any) return tl::unexpected(any.error());
  return OpenRun{std::make_shared<const run::Run>(std::move(any->run)), location,
                 std::move(any->warnings)};
}

}  // namespace foregather::gui
