#include "tests/faults/aftermath.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/support/processes.h"

namespace foregather::test {
namespace {

namespace fs = std::filesystem;
using Writes = LongCommand::Writes;
constexpr const char* kOld = "what was there before\n";

std::string state_of(const LongCommand& command, const Stage& stage) {
  const std::string file = stage.folder() + "/" + command.output;
  if (!fs::exists(file)) return "no file";
  if (command.writes == Writes::whole) {
    if (text_of(file) == kOld) return "old file";
    return command.is_whole(file, stage.reference) ? "new file" : "half a file";
  }
  const std::size_t rows = command.rows(file, stage.reference);  // rolls back what was cut short
  return rows > 0 && command.is_whole(file, stage.reference) ? "all rows" : "rows so far";
}

}  // namespace

void put_old_file(const LongCommand& command, const Stage& stage) {
  if (command.writes == Writes::whole)
    std::ofstream(stage.folder() + "/" + command.output, std::ios::binary) << kOld;
}

std::string aftermath(const LongCommand& command, const Stage& stage, int code, bool is_killed) {
  INFO(command.name << " said: " << text_of(stage.said()));
  std::string state = state_of(command, stage);
  CHECK(state != "half a file");
  // How far it came is chance.
  const bool has_reason = code == 2 || code == 0;
  if (command.writes == Writes::in_place && !has_reason) state = "rows so far";
  std::string others;
  for (const auto& entry : fs::directory_iterator(stage.folder())) {
    const std::string name = entry.path().filename().string();
    const bool is_temporary = name.find(".tmp-") != std::string::npos || name.ends_with("-journal");
    const bool is_ours = name == command.output || name == "filler" ||
                         (command.writes == Writes::in_place && name.ends_with("-journal"));
    if (is_ours || (is_killed && is_temporary)) continue;
    others += ", OUT" + name.substr(std::min(name.size(), command.output.size()));
  }
  if (!is_killed) CHECK(fs::is_empty(stage.scratch.path("tmp")));
  constexpr int kSignal = 128;
  return std::to_string(code < 0 ? kSignal - code : code) + ", " + state + others;
}

void check_second_attempt(const LongCommand& command, const Stage& stage) {
  LongCommand second = command;
  const bool is_elsewhere = command.resume == Texts{"new"};
  if (is_elsewhere)
    second.output = "second_" + command.output;
  else
    second.arguments.insert(second.arguments.begin() + 1, command.resume.begin(),
                            command.resume.end());
  const int code =
      end_of(begin_process(second.command(stage.folder()), stage.environment(), stage.said()));
  INFO(command.name << " said: " << text_of(stage.said()));
  CHECK(code == 0);
  CHECK(second.is_whole(stage.folder() + "/" + second.output, stage.reference));
}

std::string last_line(const Stage& stage) {
  std::istringstream text(text_of(stage.said()));
  std::string last;
  for (std::string line; std::getline(text, line);)
    if (!line.empty()) last = line;
  return last;
}

}  // namespace foregather::test
