#include <unistd.h>

#include <filesystem>
#include <memory>

#include "cli/command.h"
#include "cli/terminal.h"

namespace foregather::cli {
namespace {

namespace fs = std::filesystem;

struct RenderArguments {
  std::vector<std::string> runs;
  std::string output, range, rank, size, view;
  bool dark = false, light = false;
};

// Beside this program, as installed; in its own folder of the build tree; else in PATH.
std::string desktop_program() {
  std::error_code ignored;
  const fs::path own = fs::read_symlink("/proc/self/exe", ignored).parent_path();
  for (const fs::path& place :
       {own / "foregather-gui", own.parent_path() / "gui/app/foregather-gui"})
    if (::access(place.c_str(), X_OK) == 0) return place;
  return "foregather-gui";
}

int run_render(const RenderArguments& arguments) {
  if (arguments.dark && arguments.light)
    return give_up(Error{"--dark", "excludes --light", Fault::input});
  std::vector<std::string> texts{desktop_program(), "--render"};
  for (const auto& [name, value] :
       {std::pair{"--output", &arguments.output}, std::pair{"--range", &arguments.range},
        std::pair{"--rank", &arguments.rank}, std::pair{"--size", &arguments.size},
        std::pair{"--view", &arguments.view}})
    if (!value->empty()) texts.push_back(std::string(name) + "=" + *value);
  if (arguments.dark) texts.emplace_back("--dark");
  for (const std::string& run : arguments.runs)
    texts.push_back(run.starts_with("--") ? "./" + run : run);
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  ::execvp(pointers.front(), pointers.data());
  return give_up(Error{"render",
                       "needs the desktop program foregather-gui, which is neither beside this one "
                       "nor in PATH: './dev gui' or the CMake target foregather-gui builds it "
                       "where Qt 6 is installed (apt-get install qt6-base-dev libqt6svg6-dev)",
                       Fault::work});
}

}  // namespace

Command render_command() {
  const auto arguments = std::make_shared<RenderArguments>();
  Command command;
  command.name = "render";
  command.summary = "draws the desktop's picture of a run, or of two on one axis, into a file";
  command.description =
      "Writes what the desktop program shows: lanes of streams and host threads, predicted above "
      "measured, with residuals between them, critical paths, and memory below on the same axis. "
      "Needs no display. Where two runs are given, the first is what was predicted.";
  command.options = {
      {"RUN", "",
       "RUN.db, RUN.db:NAME, a recording, a workload or a SWEEP.db; a second run to compare with",
       nullptr, nullptr, &arguments->runs, true},
      {"-o,--output", "OUT", "the file to write: OUT.png or OUT.svg", nullptr, &arguments->output,
       nullptr, true},
      {"--view",
       "VIEW",
       "timeline (default), memory, segments, residuals, summary; sweep (default of a SWEEP.db)",
       nullptr,
       &arguments->view,
       nullptr,
       false,
       false,
       {"timeline", "memory", "segments", "residuals", "summary", "sweep"}},
      {"--range", "A..B",
       "the time to show, from the begin of the step on, such as 10ms..25.5ms; else the step",
       nullptr, &arguments->range, nullptr},
      {"--rank", "N,…", "only these ranks; else all", nullptr, &arguments->rank, nullptr},
      {"--size", "WxH", "in pixels; else 1600x900", nullptr, &arguments->size, nullptr},
      {"--dark", "", "light on dark", &arguments->dark, nullptr, nullptr},
      {"--light", "", "dark on light (default)", &arguments->light, nullptr, nullptr},
  };
  command.examples = {
      "foregather render run.db -o step.png\ta predicted step",
      "foregather render predicted.db measured.db -o both.svg --range 0ms..50ms\tone over the "
      "other",
      "foregather render run.db --view memory -o memory.png\tbytes by cause",
      "foregather render snapshot.pickle --view segments -o where.png\twhich block lay where",
      "foregather render sweep.db -o front.svg\tstep time against memory, and the front",
  };
  command.run = [arguments] { return run_render(*arguments); };
  return command;
}

}  // namespace foregather::cli
