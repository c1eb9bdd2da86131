// foregather_manual FOLDER: writes man pages and completions there, as `cmake --install` takes
// them.
#include <fmt/format.h>

#include <fstream>

#include "cli/manual.h"

namespace {

bool write(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) fmt::print(stderr, "foregather_manual: {}: cannot be written\n", path);
  return static_cast<bool>(file);
}

}  // namespace

int main(int argc, char** argv) {
  using namespace foregather::cli;
  if (argc != 2) return 2;
  const std::string folder = argv[1];
  const std::vector<Command> all = commands();
  bool done = write(folder + "/foregather.1", man_page(all)) &&
              write(folder + "/foregather.bash", bash_completion(all)) &&
              write(folder + "/_foregather", zsh_completion(all)) &&
              write(folder + "/foregather.fish", fish_completion(all));
  for (const Command& command : all)
    done =
        done && write(fmt::format("{}/foregather-{}.1", folder, command.name), man_page(command));
  return done ? 0 : 1;
}
