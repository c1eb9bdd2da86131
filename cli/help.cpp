#include "cli/help.h"

#include <fmt/format.h>

#include <algorithm>

namespace foregather::cli {
namespace {

std::size_t columns(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xC0) != 0x80; }));
}

bool is_positional(const Option& option) { return !option.names.starts_with('-'); }

std::string usage(const Command& command) {
  std::string line = fmt::format("usage: foregather {}", command.name), rest;
  for (const Option& option : command.options)
    if (is_positional(option)) (option.rest ? rest : line) += fmt::format(" {}", option.names);
  return line + required_options(command) + " [OPTION]..." +
         (rest.empty() ? "" : " --" + rest + "...") + "\n";
}

std::string option_text(const Option& option) {
  return fmt::format("  {}\n{}", shown_names(option), wrapped(option.doc, 6));
}

std::string examples_text(const Command& command) {
  std::string text = "\nExamples:\n";
  for (const std::string& example : command.examples) {
    const auto tab = example.find('\t');
    text += fmt::format("  {}\n{}", example.substr(0, tab), wrapped(example.substr(tab + 1), 6));
  }
  return text;
}

std::string beside(const std::string& left, const std::string& text) {
  constexpr std::size_t kColumn = 28;
  std::string right = wrapped(text, kColumn);
  const std::string start = "  " + left;
  if (columns(start) + 2 > kColumn) return start + "\n" + right;
  return start + right.substr(columns(start));
}

constexpr std::string_view kExitCodes =
    "\nExit status: 0 done (running out of memory is a result), 1 the work failed, 2 bad usage or "
    "input.\n";

}  // namespace

std::string shown_names(const Option& option) {
  std::string names;
  for (const char c : option.names) names += c == ',' ? std::string(", ") : std::string(1, c);
  return option.value.empty() ? names : names + " " + option.value;
}

std::string required_options(const Command& command) {
  std::string text;
  for (const Option& option : command.options)
    if (option.required && !is_positional(option))
      text += fmt::format(" {} {}", option.names.substr(0, option.names.find(',')), option.value);
  return text;
}

std::string brief(std::string_view doc) {
  constexpr std::size_t kTwoLines = 128;
  for (const std::string_view stop : {". ", "; ", ": "}) {
    if (stop != ". " && columns(doc) <= kTwoLines) break;
    doc = doc.substr(0, doc.find(stop));
  }
  return std::string(doc);
}

std::string wrapped(const std::string& text, std::size_t indent, std::size_t width) {
  std::string out;
  std::string line(indent, ' ');
  const auto flush = [&] {
    out += line + '\n';
    line.assign(indent, ' ');
  };
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find_first_of(" \n", at), text.size());
    const std::string word = text.substr(at, end - at);
    const bool is_first = line.size() == indent;
    if (!is_first && columns(line) + 1 + columns(word) > width) flush();
    if (line.size() != indent) line += ' ';
    line += word;
    const bool ends_line = end < text.size() && text[end] == '\n';
    if (ends_line) {
      line.erase(line.find_last_not_of(' ') + 1);
      flush();
    }
    at = end + 1;
  }
  if (line.size() > indent) flush();
  return out;
}

std::string help_text(std::span<const Command> commands) {
  std::string text =
      "usage: foregather COMMAND [OPTION]...\n\n"
      "Predicts what sharded training costs: step time, communication and peak memory.\n\n"
      "Commands:\n";
  for (const Command& command : commands)
    text += fmt::format("  {:<12}{}\n", command.name, command.summary);
  text +=
      "\nOptions:\n"
      "  -h, --help  this text\n"
      "  --version   the version, and how it was built\n\n"
      "`foregather COMMAND --help` is a command's options, `foregather help COMMAND` all about "
      "it.\n";
  return text + std::string(kExitCodes);
}

std::string help_text(const Command& command) {
  std::string text = usage(command) + "\n" +
                     wrapped(command.description.substr(0, command.description.find("\n\n")), 0);
  for (const bool positional : {true, false}) {
    std::string lines;
    for (const Option& option : command.options)
      if (is_positional(option) == positional)
        lines += beside(shown_names(option), brief(option.doc));
    if (!positional) lines += beside("-h, --help", "this text");
    if (!lines.empty()) text += (positional ? "\nArguments:\n" : "\nOptions:\n") + lines;
  }
  text += fmt::format("\n`foregather help {}` says more, with examples.\n", command.name);
  return text;
}

std::string manual_text(const Command& command) {
  std::string text = usage(command) + "\n" + wrapped(command.description, 0);
  for (const bool positional : {true, false}) {
    text += positional ? "\nArguments:\n" : "\nOptions:\n";
    for (const Option& option : command.options)
      if (is_positional(option) == positional) text += option_text(option);
    if (std::none_of(command.options.begin(), command.options.end(), is_positional) && positional)
      text.erase(text.rfind("\nArguments:\n"));
  }
  text += "  -h, --help\n      this text\n";
  if (!command.examples.empty()) text += examples_text(command);
  return text + std::string(kExitCodes);
}

}  // namespace foregather::cli
