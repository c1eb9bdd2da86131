#include "tests/faults/long_commands.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include <catch2/catch.hpp>

#include "core/store/reader.h"
#include "core/store/sweep_reader.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"
#include "tests/support/repetitions.h"
#include "tests/support/skip.h"

namespace foregather::test {
namespace {

namespace fs = std::filesystem;
using Writes = LongCommand::Writes;

const std::string kSamples = source_dir() + "/traces/samples/";

std::string bytes_of(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

bool is_same_as(const std::string& file, const std::string& reference) {
  return bytes_of(file) == bytes_of(reference);
}

bool is_complete_run(const std::string& file, const std::string&) {
  const auto run = store::read_run(file);
  return run && run->about.state == run::RunState::complete;
}

std::size_t run_rows(const std::string& file, const std::string&) {
  const auto run = store::read_run(file);
  if (!run) {
    // Between the tables and the first rows.
    if (fs::file_size(file) > 0)
      CHECK(run.error().message.find("holds no run") != std::string::npos);
    return 0;
  }
  return run->ops.size();
}

std::size_t sweep_rows(const std::string& file, const std::string& reference) {
  if (fs::file_size(file) == 0) return 0;
  const auto reader = store::SweepReader::open(file);
  if (!reader) {
    // The first commit was under way: its journal took it back.
    CHECK(reader.error().message.find("holds nothing") != std::string::npos);
    return 0;
  }
  const auto found = stored_points(file), expected = stored_points(reference);
  for (const run::SweepPoint& point : found)
    CHECK(std::ranges::find(expected, point) != expected.end());
  return found.size();
}

bool is_complete_sweep(const std::string& file, const std::string& reference) {
  return stored_points(file) == stored_points(reference);
}

std::string program(const std::string& place) {
  return (fs::path(program_path()).parent_path() / place).lexically_normal().string();
}

// An input that the program itself writes.
std::string made(const Scratch& inputs, const std::string& name, Texts arguments) {
  arguments.insert(arguments.begin(), program_path());
  arguments.insert(arguments.end(), {"-o", inputs.path(name)});
  REQUIRE(end_of(begin_process(arguments, {}, inputs.path("said"))) == 0);
  return inputs.path(name);
}

// Of a table, so that it takes no longer than the others.
std::string first_lines(const Scratch& inputs, const fs::path& table) {
  std::ifstream all(table);
  std::string lines, line;
  for (int i = 0; i < 20 && std::getline(all, line); ++i) lines += line + "\n";
  return inputs.write("measured.csv", lines);
}

}  // namespace

Texts LongCommand::command(const std::string& folder) const {
  Texts all{program_path()};
  all.insert(all.end(), arguments.begin(), arguments.end());
  all.push_back(folder + "/" + output);
  all.insert(all.end(), behind.begin(), behind.end());
  return all;
}

Texts long_command_names() {
  return {"simulate", "import", "export",          "sweep",     "search",   "run",
          "record",   "merge",  "merge of sweeps", "calibrate", "validate", "render"};
}

std::vector<LongCommand> long_commands(const Scratch& inputs) {
  const std::string tiny = kSamples + "tiny_fsdp2.toml", large = kSamples + "llama3_8b_fsdp2.toml";
  const std::string points = "train.micro_batch=1.." + std::to_string(repetitions(200));
  const std::string predicted = made(inputs, "predicted.db", {"simulate", large});
  const std::string swept = made(inputs, "swept.db", {"sweep", tiny, "--vary", points});
  const std::string measured = made(
      inputs, "measured.db",
      {"run", tiny, "--backend", "host", "-n", "2", "--steps", "2", "--set", "train.seq_len=8"});
  std::vector<LongCommand> all{
      {"simulate", {"simulate", large, "-o"}, "out.db", Writes::whole, is_complete_run},
      {"export",
       {"export", predicted, "--format", "chrome", "-o"},
       "out.json",
       Writes::whole,
       is_same_as},
      {"sweep",
       {"sweep", tiny, "--vary", points, "-j", "2", "-o"},
       "out.db",
       Writes::in_place,
       is_complete_sweep,
       sweep_rows},
      {"search",
       {"search", tiny, "--vary", points, "--memory-limit", "80GiB", "-o"},
       "out.db",
       Writes::in_place,
       is_complete_sweep,
       sweep_rows},
      {"run",
       {"run", tiny, "--backend", "host", "-n", "1", "--steps", "3", "--set", "train.seq_len=8",
        "-o"},
       "out.db",
       Writes::in_place,
       is_complete_run,
       run_rows},
      {"merge", {"merge", predicted, "-o"}, "out.db", Writes::whole, is_complete_run},
      {"merge of sweeps", {"merge", swept, "-o"}, "out.db", Writes::whole, is_complete_sweep},
      {"calibrate", {"calibrate", measured, "-o"}, "out.toml", Writes::whole, is_same_as},
  };
  for (LongCommand& command : all) {
    command.writes_long = command.name == "export" || command.name.starts_with("merge");
    command.uses_clock = command.writes == Writes::in_place;
    if (command.name == "sweep") command.resume = {"--resume"};
    if (command.name == "search" || command.name == "run") command.resume = {"new"};
  }
  if (fs::exists(program("libforegather_inject.so")) ||
      fs::exists(program("../profiler/libforegather_inject.so"))) {
    all.push_back(
        {"record", {"record", "--host-only", "-o"}, "out.db", Writes::whole, is_complete_run});
    all.back().behind = {"--", "/bin/sh", "-c", "echo begun && exec sleep 1"};
    all.back().uses_clock = all.back().passes_signals = true;
    all.back().resume = {"new"};
  }
  if (const auto trace = shared_data("nsys/nsys_ai/tests__fixtures__mfu_2gpu_before.sqlite"))
    all.push_back(
        {"import", {"import", trace->string(), "-o"}, "out.db", Writes::whole, is_complete_run});
  if (const auto table = shared_data("measured/measured.csv"))
    all.push_back({"validate",
                   {"validate", "--measured", first_lines(inputs, *table), "--predictions"},
                   "out.csv",
                   Writes::whole,
                   is_same_as});
  if (fs::exists(program("foregather-gui")) || fs::exists(program("../gui/app/foregather-gui")))
    all.push_back({"render", {"render", predicted, "-o"}, "out.svg", Writes::whole, is_same_as});
  return all;
}

}  // namespace foregather::test
