// The pages for users show what the program prints. UPDATE_GOLDEN=1 rewrites their blocks: look at
// the diff.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include <catch2/catch.hpp>

#include "tests/golden/page.h"
#include "tests/golden/process.h"
#include "tests/support/places.h"

using namespace foregather::test;

namespace {

namespace fs = std::filesystem;

std::string page_content(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

// The number of its blocks that run.
std::size_t check_page(const fs::path& path) {
  const std::string page = page_content(path);
  const auto blocks = runnable_blocks(page);
  if (blocks.empty()) return 0;
  const TemporaryDirectory directory;
  link_repository(directory.path());
  std::vector<std::vector<std::string>> now;
  for (const PageBlock& block : blocks) {
    now.push_back(run_block(block, directory.path()));
    const bool is_same = reads_as(block.lines, now.back());
    if (is_same) now.back() = block.lines;
    if (std::getenv("UPDATE_GOLDEN") != nullptr) continue;
    INFO(path.string() << ":" << block.first + 1);
    if (is_same)
      SUCCEED();
    else
      CHECK(joined(now.back()) == joined(block.lines));
  }
  const std::string updated = with_blocks(page, blocks, now);
  if (std::getenv("UPDATE_GOLDEN") != nullptr && updated != page)
    std::ofstream(path, std::ios::binary) << updated;
  return blocks.size();
}

std::vector<std::string> lines(const std::string& text) {
  std::vector<std::string> all;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) all.push_back(line);
  return all;
}

}  // namespace

TEST_CASE("the README shows what the program prints") {
  CHECK(check_page(fs::path(source_dir()) / "README.md") > 0);
}

TEST_CASE("the cookbook shows what the program prints") {
  CHECK(check_page(fs::path(source_dir()) / "docs/cookbook.md") >= 18);
}

TEST_CASE("the other pages show what the program prints") {
  for (const auto& entry : fs::directory_iterator(fs::path(source_dir()) / "docs"))
    if (entry.path().extension() == ".md" && entry.path().filename() != "cookbook.md")
      check_page(entry.path());
}

TEST_CASE("blocks of a page that begin with a prompt run, and no others") {
  const std::string page =
      "Text\n\n    $ echo a |\n        cat\n    a\n\n    b\n\nText\n    $ echo no block\n\n"
      "    echo no prompt\n\n```\n$ echo c; exit 3\nc\n```\n";
  const auto blocks = runnable_blocks(page);
  REQUIRE(blocks.size() == 2);
  CHECK(blocks[0].lines == lines("$ echo a |\n    cat\na\n\nb"));
  CHECK(run_block(blocks[0], "/") == lines("$ echo a |\n    cat\na"));
  CHECK(run_block(blocks[1], "/") == lines("$ echo c; exit 3\nc\n[exit 3]"));
  CHECK(with_blocks(page, blocks, {blocks[0].lines, blocks[1].lines}) == page);
  CHECK(with_blocks("x\n\n    $ a\n    b\n", runnable_blocks("x\n\n    $ a\n    b\n"),
                    {lines("$ a\nc\n\nd")}) == "x\n\n    $ a\n    c\n\n    d\n");
}

TEST_CASE("three dots of a page stand for any lines, and nothing else does") {
  const auto reads = [](const std::string& shown, const std::string& now) {
    return reads_as(lines(shown), lines(now));
  };
  CHECK(reads("a\nb", "a\nb"));
  CHECK_FALSE(reads("a\nb", "a\nc"));
  CHECK_FALSE(reads("a", "a\nb"));
  CHECK_FALSE(reads("a\nb", "a"));
  CHECK(reads("a\n  …\nd", "a\nb\nc\nd"));
  CHECK(reads("a\n…", "a\nb"));
  CHECK(reads("…\nb", "a\nb"));
  CHECK(reads("a\n…\nc\n…\ne", "a\nb\nc\nd\ne"));
  CHECK_FALSE(reads("a\n…\nd", "a\nb\nc"));
  CHECK_FALSE(reads("a\n…\nc\n…\ne", "a\nb\nd\ne"));
  CHECK_FALSE(reads("b\n…", "a\nb"));
}
