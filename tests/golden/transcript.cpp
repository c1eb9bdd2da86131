#include "tests/golden/transcript.h"

#include <algorithm>
#include <filesystem>
#include <regex>
#include <sstream>
#include <vector>

#include "tests/golden/process.h"
#include "tests/support/places.h"

namespace foregather::test {
namespace {

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
    text.replace(at, from.size(), to);
  return text;
}

// Words of a command line; '…' keeps spaces.
std::vector<std::string> words(const std::string& line) {
  std::vector<std::string> all;
  bool quoted = false, in_word = false;
  for (const char c : line) {
    if (c == '\'') {
      quoted = !quoted;
      if (!in_word) all.emplace_back();
      in_word = true;
    } else if (c == ' ' && !quoted) {
      in_word = false;
    } else {
      if (!in_word) all.emplace_back();
      in_word = true;
      all.back() += c;
    }
  }
  return all;
}

std::string marked(const std::string& text, const std::string& prefix) {
  std::string out;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) out += prefix + line + '\n';
  return out;
}

std::string files_of(const std::string& directory) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(directory))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  std::string text;
  for (const std::string& name : names) text += " " + name;
  return names.empty() ? "" : "[files" + text + "]\n";
}

std::string run_line(const std::string& line, const std::string& directory) {
  std::vector<std::string> arguments = words(replaced(line, "$TMP", directory));
  std::string redirect;
  if (arguments.size() > 2 && arguments[arguments.size() - 2] == ">") {
    redirect = arguments.back();
    arguments.resize(arguments.size() - 2);
  }
  if (!arguments.empty() && arguments[0] == "foregather") arguments[0] = program_path();
  const ProcessResult result = run_process(arguments, source_dir(), redirect);
  std::string text = marked(result.out, "") + marked(result.err, "! ");
  if (result.exit != 0) text += "[exit " + std::to_string(result.exit) + "]\n";
  static const std::regex kWallTime("\"simulated_in_ns\": [0-9]+");
  text = std::regex_replace(replaced(text, directory, "$TMP"), kWallTime, "\"simulated_in_ns\": *");
  return text + files_of(directory);
}

}  // namespace

std::string replay(const std::string& transcript) {
  const TemporaryDirectory directory;
  std::string now;
  std::istringstream lines(transcript);
  bool before_first = true;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("# ") && before_first) now += line + '\n';
    if (!line.starts_with("$ ")) continue;
    now += (before_first ? "" : "\n") + line + '\n';
    now += run_line(line.substr(2), directory.path());
    before_first = false;
  }
  return now;
}

}  // namespace foregather::test
