#include "gui/app/load.h"

#include "tasks/any_run.h"
#include "tasks/device_hardware.h"

namespace foregather::gui {

Result<OpenRun> load_run(const std::string& location) {
  auto any = tasks::load_any_run(location);
  if (!any) return tl::unexpected(any.error());
  auto machine = tasks::hardware_of_device(any->run.about.hardware);
  return OpenRun{std::make_shared<const run::Run>(std::move(any->run)), location,
                 std::move(any->warnings), std::move(machine)};
}

}  // namespace foregather::gui
