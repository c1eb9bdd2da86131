#include "tests/golden/page.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "tests/golden/process.h"
#include "tests/support/places.h"

namespace foregather::test {
namespace {

namespace fs = std::filesystem;
using Lines = std::vector<std::string>;

Lines lines_of(const std::string& text) {
  Lines lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

bool is_blank(const std::string& line) { return line.find_first_not_of(' ') == std::string::npos; }

bool is_gap(const std::string& line) {
  const auto begin = line.find_first_not_of(' ');
  return begin != std::string::npos && line.substr(begin) == "…";
}

// A command's first line and those that it goes on in.
Lines command_at(const Lines& lines, std::size_t at) {
  Lines command{lines[at]};
  while ((command.back().ends_with('|') || command.back().ends_with('\\')) &&
         at + command.size() < lines.size())
    command.push_back(lines[at + command.size()]);
  return command;
}

std::string quoted(const std::string& text) { return "'" + text + "'"; }

}  // namespace

std::vector<PageBlock> runnable_blocks(const std::string& page) {
  const Lines lines = lines_of(page);
  std::vector<PageBlock> blocks;
  const auto add = [&](std::size_t first, std::size_t last, const std::string& indent) {
    PageBlock block{first, last, indent, {}};
    for (std::size_t i = first; i < last; ++i)
      block.lines.push_back(is_blank(lines[i]) ? "" : lines[i].substr(indent.size()));
    if (!block.lines.empty() && block.lines.front().starts_with("$ "))
      blocks.push_back(std::move(block));
  };
  for (std::size_t at = 0; at < lines.size(); ++at) {
    if (lines[at].starts_with("```")) {
      std::size_t end = at + 1;
      while (end < lines.size() && !lines[end].starts_with("```")) ++end;
      add(at + 1, end, "");
      at = end;
    } else if (lines[at].starts_with("    ") && (at == 0 || is_blank(lines[at - 1]))) {
      std::size_t end = at;
      while (end < lines.size() && (is_blank(lines[end]) || lines[end].starts_with("    "))) ++end;
      while (is_blank(lines[end - 1])) --end;
      add(at, end, "    ");
      at = end;
    }
  }
  return blocks;
}

Lines run_block(const PageBlock& block, const std::string& directory) {
  Lines all;
  for (std::size_t at = 0; at < block.lines.size(); ++at) {
    if (!block.lines[at].starts_with("$ ")) continue;
    const Lines command = command_at(block.lines, at);
    std::string text;
    for (const std::string& line : command) text += line + '\n';
    const std::string path = fs::path(program_path()).parent_path().string();
    const ProcessResult result = run_process(
        {"/bin/sh", "-c", "PATH=" + quoted(path) + ":$PATH\n" + text.substr(2)}, directory);
    all.insert(all.end(), command.begin(), command.end());
    for (const std::string& output : {result.out, result.err})
      for (const std::string& line : lines_of(output)) all.push_back(is_blank(line) ? "" : line);
    if (result.exit != 0) all.push_back("[exit " + std::to_string(result.exit) + "]");
  }
  while (!all.empty() && all.back().empty()) all.pop_back();
  return all;
}

bool reads_as(const Lines& shown, const Lines& lines) {
  auto at = lines.begin();
  for (auto begin = shown.begin(); true;) {
    const auto end = std::find_if(begin, shown.end(), is_gap);
    const Lines part(begin, end);
    const bool is_first = begin == shown.begin(), is_last = end == shown.end();
    if (part.empty() && is_last) return is_first ? lines.empty() : true;
    auto found = std::search(at, lines.end(), part.begin(), part.end());
    if (is_last && std::ssize(part) <= lines.end() - at) found = lines.end() - std::ssize(part);
    if (found == lines.end() || (is_first && found != at) ||
        !std::equal(part.begin(), part.end(), found))
      return false;
    at = found + std::ssize(part);
    if (is_last) return at == lines.end();
    begin = end + 1;
  }
}

std::string with_blocks(const std::string& page, const std::vector<PageBlock>& blocks,
                        const std::vector<Lines>& lines) {
  const Lines before = lines_of(page);
  std::string text;
  std::size_t at = 0;
  const auto copy_to = [&](std::size_t end) {
    for (; at < end; ++at) text += before[at] + '\n';
  };
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    copy_to(blocks[i].first);
    for (const std::string& line : lines[i])
      text += line.empty() ? "\n" : blocks[i].indent + line + '\n';
    at = blocks[i].last;
  }
  copy_to(before.size());
  return text;
}

void link_repository(const std::string& directory) {
  for (const auto& entry : fs::directory_iterator(source_dir()))
    if (entry.is_directory() && !entry.path().filename().string().starts_with('.'))
      fs::create_directory_symlink(entry.path(), fs::path(directory) / entry.path().filename());
}

}  // namespace foregather::test
