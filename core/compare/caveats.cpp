#include "core/compare/caveats.h"

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/run/replay.h"

namespace foregather::compare {
namespace {

bool knows_any_wait(run::RunView run) {
  for (std::size_t op = 0; op < run.ops.size(); ++op)
    if (is_collective(run.ops.kind[op]) && run.ops.transfer[op] > run.ops.start[op]) return true;
  return false;
}

void add_waits(const Side& side, const Side& other, std::vector<std::string>& caveats) {
  if (knows_waits(side.run, side.step) || !knows_waits(other.run, other.step)) return;
  if (other.step.wait == 0) return;
  caveats.push_back(fmt::format(
      "{}: does not tell what its collectives waited for other ranks: its times of communication "
      "are with that, those of {} without",
      side.location, other.location));
}

// The step of the one begins where the device ended the step before, and that of the other does not
// say when that was.
void add_time_before(const Side& side, const Side& other, std::vector<std::string>& caveats) {
  const run::StepInfo& step = side.run.steps[side.row.row()];
  const Ns before = side.begin - step.begin;
  if (run::has_recorded_ops(side.run.about) || 100 * before <= step.end - step.begin) return;
  caveats.push_back(fmt::format(
      "{}: {} of its step are before its first op and not compared: {} does not tell when the step "
      "before ended",
      side.location, format_time(before), other.location));
}

}  // namespace

bool knows_waits(run::RunView run, const BusyTimes& step) {
  return !run::has_recorded_ops(run.about) || step.comm == 0 || step.wait != 0 ||
         knows_any_wait(run);
}

std::vector<std::string> caveats(const Side& first, const Side& second) {
  std::vector<std::string> caveats;
  // A recording of one rank need not say of how many.
  const auto is_known = [](const run::RunInfo& about) {
    return about.kind == run::RunKind::predicted || about.world_size > 1;
  };
  const run::RunInfo& one = first.run.about;
  const run::RunInfo& other = second.run.about;
  // Recordings have the name that the driver gives a GPU. What is not built in may be a calibrated
  // file of the other one.
  if (first.machine && second.machine && *first.machine != *second.machine)
    caveats.push_back(fmt::format("{} is of {}, {} of {}: times differ by the hardware, too",
                                  first.location, one.hardware, second.location, other.hardware));
  if (is_known(one) && is_known(other) && one.world_size != other.world_size)
    caveats.push_back(fmt::format("{} has {} ranks, {} has {}: they are two jobs", first.location,
                                  one.world_size, second.location, other.world_size));
  add_waits(first, second, caveats);
  add_waits(second, first, caveats);
  add_time_before(first, second, caveats);
  add_time_before(second, first, caveats);
  return caveats;
}

}  // namespace foregather::compare
