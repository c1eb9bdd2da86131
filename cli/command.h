// A subcommand: what it is called, what it takes, what it does.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace foregather::cli {

/// One option or positional argument.
struct Option {
  std::string names;  ///< "-o,--output"; a positional argument has no dash: "SOURCE"
  std::string value;  ///< what its value is called in help; empty for a flag
  std::string doc;    ///< one or more sentences
  // Exactly one of these is where it goes. They outlive the parse.
  bool* flag = nullptr;
  std::string* text = nullptr;
  std::vector<std::string>* texts = nullptr;
  bool required = false;
  bool rest = false;                      ///< of `texts`: all that is behind "--", as it is
  std::vector<std::string> choices = {};  ///< all that it may be, for shells; empty: not a choice
  bool takes_dash = false;                ///< "-" is standard output
};

/// A subcommand. `run` is called after `options` have been filled; its result is the exit code.
struct Command {
  std::string_view name;
  std::string_view summary;  ///< one line without a full stop
  std::string description;   ///< paragraphs, separated by empty lines
  std::vector<Option> options;
  std::vector<std::string> examples;  ///< "COMMAND\tWHAT IT DOES"
  std::function<int()> run;
};

Command simulate_command();
Command sweep_command();
Command search_command();
Command export_command();
Command import_command();
Command memory_command();
Command merge_command();
Command record_command();
Command compare_command();
Command render_command();
Command calibrate_command();
Command run_command();
Command validate_command();
Command reproduce_command();
Command doctor_command();

/// All of them, in the order of the help.
std::vector<Command> commands();

}  // namespace foregather::cli
