// Every long command meets every fault, as docs/reliability.md says. UPDATE_GOLDEN=1 writes its
// table anew: look at the diff.
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/faults/aftermath.h"
#include "tests/faults/fault.h"
#include "tests/support/places.h"
#include "tests/support/processes.h"
#include "tests/support/scratch.h"

using namespace foregather;

namespace {

namespace fs = std::filesystem;
using test::Texts;
// By command and fault; what was not tried is not there.
using Table = std::map<std::string, std::map<std::string, std::string>>;

const std::string kPage = test::source_dir() + "/docs/reliability.md";
constexpr const char* kHead = "| command |";

Texts cells_of(const std::string& line) {
  Texts cells;
  std::istringstream text(line.substr(1));
  for (std::string cell; std::getline(text, cell, '|');)
    cells.push_back(cell.size() < 2 ? "" : cell.substr(1, cell.size() - 2));
  return cells;
}

// The page's lines around the table, and its cells.
struct Page {
  std::string before, behind;
  Table table;
};

Page read_page() {
  Page page;
  std::istringstream text(test::text_of(kPage));
  Texts names;
  bool is_behind = false;
  for (std::string line; std::getline(text, line);) {
    const bool is_row = line.starts_with("|");
    if (line.starts_with(kHead)) {
      names = cells_of(line);
    } else if (names.empty()) {
      page.before += line + "\n";
    } else if (is_behind || !is_row) {
      is_behind = true;
      page.behind += line + "\n";
    } else if (const Texts cells = cells_of(line); cells.size() == names.size()) {
      for (std::size_t i = 1; i < cells.size(); ++i) page.table[cells.front()][names[i]] = cells[i];
    }
  }
  return page;
}

std::string written(const Table& table) {
  std::string head = kHead, rule = "|---|", rows;
  for (const test::Fault& fault : test::faults()) {
    head += " " + fault.name + " |";
    rule += "---|";
  }
  for (const std::string& command : test::long_command_names()) {
    rows += "| " + command + " |";
    for (const test::Fault& fault : test::faults()) {
      const auto row = table.find(command);
      const bool is_there = row != table.end() && row->second.contains(fault.name);
      rows += " " + (is_there ? row->second.at(fault.name) : "?") + " |";
    }
    rows += "\n";
  }
  return head + "\n" + rule + "\n" + rows;
}

test::Stage undisturbed(const test::LongCommand& command, const test::Scratch& scratch) {
  test::Stage stage{scratch, scratch.path("reference"), 0};
  fs::create_directory(stage.folder());
  fs::create_directory(scratch.path("tmp"));
  const auto begun = std::chrono::steady_clock::now();
  const int code = test::end_of(
      test::begin_process(command.command(stage.folder()), stage.environment(), stage.said()));
  stage.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begun).count();
  INFO(command.name << ": " << test::text_of(stage.said()));
  REQUIRE(code == 0);
  fs::rename(stage.folder() + "/" + command.output, stage.reference);
  CHECK(command.is_whole(stage.reference, stage.reference));
  return stage;
}

}  // namespace

TEST_CASE("every long command ends under every fault as the page says") {
  const test::Scratch inputs;
  const bool is_update = std::getenv("UPDATE_GOLDEN") != nullptr;
  Page page = read_page();
  for (const test::LongCommand& command : test::long_commands(inputs)) {
    const test::Scratch scratch;
    const test::Stage stage = undisturbed(command, scratch);
    for (const test::Fault& fault : test::faults()) {
      INFO(command.name << ", " << fault.name);
      std::error_code ignored;
      fs::remove_all(stage.folder(), ignored);
      const auto cell = fault.happen(command, stage);
      if (!cell) continue;
      std::string& shown = page.table[command.name][fault.name];
      if (!is_update) CHECK(*cell == shown);
      shown = *cell;
    }
  }
  if (is_update)
    std::ofstream(kPage, std::ios::binary) << page.before << written(page.table) << page.behind;
}
