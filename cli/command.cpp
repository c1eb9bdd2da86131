#include "cli/command.h"

namespace foregather::cli {

std::vector<Command> commands() {
  std::vector<Command> all;
  all.push_back(simulate_command());
  all.push_back(sweep_command());
  all.push_back(search_command());
  all.push_back(record_command());
  all.push_back(import_command());
  all.push_back(export_command());
  all.push_back(merge_command());
  all.push_back(memory_command());
  all.push_back(compare_command());
  all.push_back(render_command());
  all.push_back(calibrate_command());
  all.push_back(run_command());
  all.push_back(validate_command());
  all.push_back(reproduce_command());
  all.push_back(doctor_command());
  return all;
}

}  // namespace foregather::cli
