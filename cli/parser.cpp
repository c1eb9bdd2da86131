#include "cli/parser.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <CLI/CLI.hpp>

#include "cli/help.h"
#include "cli/terminal.h"
#include "core/base/suggest.h"

namespace foregather::cli {
namespace {

constexpr int kBadUsage = 2;

int bad_usage(const std::string& command, const std::string& message) {
  complain(
      fmt::format("{} (try 'foregather {}--help')", message, command.empty() ? "" : command + " "));
  return kBadUsage;
}

void declare(CLI::App& app, const Option& option) {
  const bool is_positional = !option.names.starts_with('-');
  // Names of positional arguments are for people; CLI11 knows them by order.
  const std::string names =
      is_positional ? fmt::format("argument{}", app.get_options().size()) : option.names;
  if (option.flag != nullptr) {
    app.add_flag(names, *option.flag);
  } else if (option.text != nullptr) {
    app.add_option(names, *option.text);
  } else {
    CLI::Option* list = app.add_option(names, *option.texts);
    if (!is_positional) list->expected(1)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  }
}

// "--output" of "-o,--output".
std::string_view long_name(const Option& option) {
  const auto dashes = option.names.find("--");
  return std::string_view(option.names).substr(dashes == std::string::npos ? 0 : dashes);
}

bool is_argument(const Option& option) { return !option.rest && !option.names.starts_with('-'); }

// "-o ''", as from an unset variable of a shell.
const Option* find_empty(const CLI::App& app, const Command& command) {
  for (const Option& option : command.options) {
    const bool is_empty = is_argument(option)
                              ? option.texts != nullptr && std::ranges::count(*option.texts, "") > 0
                              : option.text != nullptr && option.text->empty() &&
                                    app.count(std::string(long_name(option))) > 0;
    if (is_empty) return &option;
  }
  return nullptr;
}

// "-", which stands for standard input or output elsewhere.
const Option* find_dash(const Command& command) {
  for (const Option& option : command.options) {
    const bool is_dash = (option.text != nullptr && *option.text == "-") ||
                         (is_argument(option) && option.texts != nullptr &&
                          std::ranges::count(*option.texts, "-") > 0);
    if (is_dash && !option.takes_dash) return &option;
  }
  return nullptr;
}

bool is_missing(const Option& option) {
  return (option.text != nullptr && option.text->empty()) ||
         (option.texts != nullptr && option.texts->empty());
}

// CLI11 names the option and the type of its value.
std::string explained(const CLI::App& app, const Command& command, const CLI::ParseError& error) {
  const std::string message = error.what();
  for (const Option& option : command.options) {
    const std::string name(long_name(option));
    if (!name.starts_with('-') || !message.starts_with(name + ":")) continue;
    if (option.text != nullptr && app.count(name) > 1)
      return fmt::format("{} is given {} times, expected once", name, app.count(name));
    return fmt::format("{} has no value, expected {} {}", name, name, option.value);
  }
  return message;
}

// Words that no option and no argument takes, in their order.
std::string unexpected(const Command& command, const std::vector<std::string>& words) {
  std::string_view positional;
  for (const Option& option : command.options) {
    const bool is_missing_rest = option.rest && option.texts->empty();
    if (is_missing_rest && !words.front().starts_with('-'))
      return fmt::format("{} goes behind '--', expected foregather {} -- {}", option.names,
                         command.name, fmt::join(words, " "));
    if (is_argument(option)) positional = option.names;
  }
  const auto is_option = [](const std::string& word) {
    return word.starts_with('-') && word.size() > 1 && word != "--";
  };
  const auto misspelt = std::find_if(words.begin(), words.end(), is_option);
  if (misspelt == words.end())
    return fmt::format(
        "'{}' is not expected: {} takes {}", fmt::join(words, " "), command.name,
        positional.empty() ? "no argument but options" : fmt::format("one {}", positional));
  const std::string word = misspelt->substr(0, misspelt->find('='));
  std::vector<std::string_view> names;
  for (const Option& option : command.options)
    if (option.names.starts_with('-')) names.push_back(long_name(option));
  return fmt::format("unknown option {}{}", word,
                     word.starts_with("--") ? did_you_mean(word, names) : "");
}

int parse_and_run(const Command& command, std::vector<std::string> arguments) {
  CLI::App app;
  app.set_help_flag();
  app.allow_extras();
  bool help = false;
  app.add_flag("-h,--help", help);
  for (const Option& option : command.options) {
    if (!option.rest) {
      declare(app, option);
      continue;
    }
    const auto dashes = std::find(arguments.begin(), arguments.end(), "--");
    if (dashes == arguments.end()) continue;
    option.texts->assign(std::next(dashes), arguments.end());
    arguments.erase(dashes, arguments.end());
  }
  try {
    std::reverse(arguments.begin(), arguments.end());
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    return bad_usage(std::string(command.name), explained(app, command, error));
  }
  if (const auto words = app.remaining(); !words.empty())
    return bad_usage(std::string(command.name), unexpected(command, words));
  if (help) return print(help_text(command));
  // Checked here and not by CLI11, so that --help goes first.
  for (const Option& option : command.options)
    if (option.required && is_missing(option))
      return bad_usage(std::string(command.name),
                       fmt::format("{} is missing: {}", long_name(option), option.doc));
  if (const Option* empty = find_empty(app, command))
    return bad_usage(std::string(command.name),
                     fmt::format("{} is empty, expected {}", long_name(*empty),
                                 empty->value.empty() ? "a file" : empty->value));
  if (const Option* dash = find_dash(command))
    return bad_usage(std::string(command.name),
                     fmt::format("{} is '-', expected {}: standard input is not read, and only "
                                 "export writes to standard output",
                                 long_name(*dash), dash->value.empty() ? "a file" : dash->value));
  return command.run();
}

}  // namespace

int dispatch(std::span<const Command> commands, const std::string& version, int argc,
             const char* const* argv) {
  if (argc < 2) return bad_usage("", "a command is missing");
  const std::string_view first = argv[1];
  const bool is_manual = first == "help" && argc > 2;
  if (!is_manual && (first == "-h" || first == "--help" || first == "help"))
    return print(help_text(commands));
  if (first == "--version") return print(version);
  const std::string_view name = is_manual ? argv[2] : first;
  for (const Command& command : commands) {
    if (command.name != name) continue;
    if (is_manual) return print(manual_text(command));
    return parse_and_run(command, std::vector<std::string>(argv + 2, argv + argc));
  }
  std::vector<std::string_view> names;
  for (const Command& command : commands) names.push_back(command.name);
  return bad_usage("", fmt::format("unknown command '{}'{}", name, did_you_mean(name, names)));
}

}  // namespace foregather::cli
