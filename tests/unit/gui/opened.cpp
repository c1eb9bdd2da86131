#include "tests/unit/gui/opened.h"

#include <catch2/catch.hpp>

#include "tasks/simulate.h"
#include "tests/support/places.h"

namespace foregather::test {

gui::Session opened(std::vector<run::Run> runs) {
  std::vector<gui::OpenRun> open;
  for (run::Run& run : runs)
    open.push_back({std::make_shared<const run::Run>(std::move(run)), "test.db", {}});
  auto session = gui::Session::open(std::move(open));
  if (!session) FAIL(session.error().text());
  return std::move(*session);
}

run::Run simulated_tiny(std::vector<std::string> sets) {
  tasks::SimulateRequest request;
  request.sources.paths = {source_dir() + "/traces/samples/tiny_fsdp2.toml"};
  request.sets = std::move(sets);
  auto outcome = tasks::simulate(request);
  if (!outcome) FAIL(outcome.error().text());
  return std::move(outcome->run);
}

}  // namespace foregather::test
