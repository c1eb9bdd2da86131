#include "cli/manual.h"

#include <catch2/catch.hpp>
#include <fmt/ranges.h>

#include "tasks/keys.h"

using namespace foregather;

namespace {

std::string manual_text;
std::vector<std::string> manual_texts;
bool manual_flag = false;

cli::Option text_option(const char* names, const char* value, const char* doc) {
  return {names, value, doc, nullptr, &manual_text};
}

cli::Option texts_option(const char* names, const char* value, const char* doc) {
  return {names, value, doc, nullptr, nullptr, &manual_texts};
}

// One option of each kind.
std::vector<cli::Command> weighing() {
  cli::Command weigh;
  weigh.name = "weigh";
  weigh.summary = "weighs 'it': all";
  weigh.description = "Weighs a thing.\n.5 kg - or C:\\x.\n\n'Twice' is better.";
  weigh.options = {text_option("SOURCE", "", "what to weigh"),
                   text_option("-o,--output", "OUT.db", "where to: [a file]\n.db\nor not"),
                   text_option("--kind", "KIND", "one of two"),
                   text_option("--as", "one|many", "how it's taken"),
                   {"--fast", "", "guesses", &manual_flag},
                   text_option("--hw", "HW", "the scales"),
                   text_option("--set", "KEY=VALUE", "sets a key"),
                   texts_option("--what-if", "PASS", "changes it"),
                   text_option("--steps", "A..B", "which"),
                   text_option("-n", "N", "how often"),
                   texts_option("COMMAND", "", "what is started")};
  weigh.options[1].required = true;
  weigh.options[2].choices = {"net", "gross"};
  weigh.options.back().rest = true;
  weigh.examples = {"foregather weigh a-b\tweighs it.", "foregather weigh c\t'c' alone."};
  cli::Command rest;
  rest.name = "rest";
  rest.summary = "does nothing";
  rest.description = "Nothing.";
  rest.options = {text_option("--hw", "HW", "none")};
  return {weigh, rest};
}

void check_holds(const std::string& text, const std::string& part) {
  CAPTURE(text, part);
  CHECK(text.find(part) != std::string::npos);
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string joined(const std::vector<std::string>& words) {
  return fmt::format("{}", fmt::join(words, " "));
}

std::string key_words() {
  std::string words;
  for (const tasks::KeyHelp& key : tasks::workload_keys()) words += key.name + "= ";
  words.pop_back();
  return words;
}

}  // namespace

TEST_CASE("bash completes commands, their options and the values that there are") {
  const std::string script = cli::bash_completion(weighing());
  check_holds(script,
              "    weigh) options='-o --output --kind --as --fast --hw --set --what-if --steps -n "
              "--help' ;;\n"
              "    rest) options='--hw --help' ;;\n");
  check_holds(script, "compgen -W 'weigh rest help --help --version' --");
  check_holds(script, "compgen -W 'weigh rest help' --");
  check_holds(script,
              "    --kind) mapfile -t COMPREPLY < <(compgen -W 'net gross' -- \"$word\") ;;\n");
  check_holds(script,
              "    --as) mapfile -t COMPREPLY < <(compgen -W 'one many' -- \"$word\") ;;\n");
  check_holds(script, "    --hw) mapfile -t COMPREPLY < <(compgen -f -W '" +
                          joined(tasks::hardware_names()) + "' -- \"$word\") ;;\n");
  check_holds(script, "    --set) mapfile -t COMPREPLY < <(compgen -W '" + key_words() +
                          "' -- \"$word\"); compopt +o filenames -o nospace 2>/dev/null ;;\n");
  check_holds(script, "    --what-if) mapfile -t COMPREPLY < <(compgen -W '" +
                          joined(tasks::pass_names()) +
                          "' -- \"$word\"); compopt +o filenames -o nospace 2>/dev/null ;;\n");
  // Nothing is known of numbers, and files are what every other word may be.
  check_holds(script, "    --steps) mapfile -t COMPREPLY < <(compgen -W '' -- \"$word\") ;;\n");
  check_holds(script, "    -n) mapfile -t COMPREPLY < <(compgen -W '' -- \"$word\") ;;\n");
  CHECK(count(script, "-o|--output)") == 0);
  CHECK(count(script, "\n    --hw)") == 1);  // of two commands
  CHECK(count(script, "--fast") == 1);       // takes no value
}

TEST_CASE("what varies in a sweep is completed by keys, hardware and passes") {
  cli::Command sweep;
  sweep.name = "sweep";
  sweep.options = {texts_option("--vary", "KEY=V1,V2", "varies")};
  const std::string script = cli::bash_completion({{sweep}});
  check_holds(script, key_words() + " hw= what-if." + tasks::pass_names().front() + "= ");
  check_holds(script, " what-if." + tasks::pass_names().back() + "='");
}

TEST_CASE("zsh completes with one function an option, without its quotes and brackets") {
  const std::string script = cli::zsh_completion(weighing());
  CHECK(script.starts_with("#compdef foregather\n"));
  check_holds(script,
              "commands=(\n  'weigh:weighs it all'\n  'rest:does nothing'\n"
              "  'help:all about a command'\n)\n");
  check_holds(script, "_foregather_kind() { compadd -- net gross }\n");
  check_holds(script,
              "_foregather_what-if() { compadd -S '' -- " + joined(tasks::pass_names()) + " }\n");
  check_holds(script,
              "_foregather_hw() { compadd -- " + joined(tasks::hardware_names()) + "; _files }\n");
  CHECK(count(script, "_foregather_hw()") == 1);
  CHECK(count(script, "_foregather_output") == 0);
  check_holds(script,
              "  weigh) _arguments \\\n"
              "    '*-o[where to a file]:OUT.db:_files' \\\n"
              "    '*--output[where to a file]:OUT.db:_files' \\\n"
              "    '*--kind[one of two]:KIND:_foregather_kind' \\\n"
              "    '*--as[how its taken]:one|many:_foregather_as' \\\n"
              "    '*--fast[guesses]' \\\n");
  check_holds(script,
              "    '*--steps[which]:A..B: ' \\\n    '*-n[how often]:N: ' \\\n"
              "    '*:file:_files' ;;\n");
  CHECK(
      script.ends_with("  rest) _arguments \\\n    '*--hw[none]:HW:_foregather_hw' \\\n"
                       "    '*:file:_files' ;;\nesac\n"));
}

TEST_CASE("fish asks for a value where there is one, and for files where it may be one") {
  const std::string script = cli::fish_completion(weighing());
  check_holds(script,
              "complete -c foregather -n __fish_use_subcommand -f -a weigh -d 'weighs it all'\n");
  check_holds(script,
              "complete -c foregather -n '__fish_seen_subcommand_from help' -f -a 'weigh rest "
              "help'\n");
  const std::string in_weigh = "complete -c foregather -n '__fish_seen_subcommand_from weigh' ";
  check_holds(script, in_weigh + "-s o -l output -r -d 'where to a file'\n");
  check_holds(script, in_weigh + "-l kind -x -a 'net gross' -d 'one of two'\n");
  check_holds(script, in_weigh + "-l fast -d 'guesses'\n");
  check_holds(script,
              in_weigh + "-l hw -r -a '" + joined(tasks::hardware_names()) + "' -d 'the scales'\n");
  check_holds(script, in_weigh + "-s n -x -d 'how often'\n");
  CHECK(count(script, "COMMAND") == 0);
  CHECK(count(script, "SOURCE") == 0);
}

TEST_CASE("a command's man page has all that its help has, and no line that troff would obey") {
  const std::string page = cli::man_page(weighing().front());
  CHECK(page.starts_with(".TH FOREGATHER-weigh 1 "));
  check_holds(page,
              ".SH NAME\nforegather\\-weigh \\- weighs 'it': all\n"
              ".SH SYNOPSIS\n.B foregather weigh\n.I SOURCE\n\\-o OUT.db\n[\\fIOPTION\\fR]...\n"
              "\\-\\- \\fICOMMAND\\fR...\n"
              ".SH DESCRIPTION\nWeighs a thing.\n\\&.5 kg \\- or C:\\ex.\n.PP\n"
              "\\&'Twice' is better.\n"
              ".SH OPTIONS\n.TP\n.B SOURCE\nwhat to weigh\n"
              ".TP\n.B \\-o, \\-\\-output OUT.db\nwhere to: [a file]\n.br\n\\&.db\n.br\nor not\n"
              ".TP\n.B \\-\\-kind KIND\none of two\n");
  check_holds(page,
              ".SH EXAMPLES\n.TP\n.B foregather weigh a\\-b\nweighs it.\n"
              ".TP\n.B foregather weigh c\n\\&'c' alone.\n.SH EXIT STATUS\n");
  CHECK(page.ends_with(".SH SEE ALSO\n.BR foregather (1)\n"));
}

TEST_CASE("the man page of the program names its commands' pages") {
  const std::string page = cli::man_page(weighing());
  CHECK(page.starts_with(".TH FOREGATHER 1 "));
  check_holds(page,
              ".SH COMMANDS\n"
              ".TP\n.B weigh\nweighs 'it': all; see \\fBforegather\\-weigh\\fR(1)\n"
              ".TP\n.B rest\ndoes nothing; see \\fBforegather\\-rest\\fR(1)\n"
              ".SH EXIT STATUS\n0: done;");
}

TEST_CASE("an option takes the same values in every command that has it") {
  // The scripts of bash and zsh keep one list for all commands.
  const std::vector<cli::Command> all = cli::commands();
  const auto starts = [](const std::string& script, const std::string& line) {
    return count("\n" + script, "\n" + line);
  };
  const std::string script = cli::zsh_completion(all);
  for (const cli::Command& command : all)
    for (const cli::Option& option : command.options) {
      const auto name = option.names.substr(option.names.find_last_of(',') + 1);
      const auto bare = name.substr(std::min(name.find_first_not_of('-'), name.size()));
      CAPTURE(command.name, name);
      CHECK(starts(script, "_foregather_" + bare + "()") <= 1);
    }
  for (const cli::Command& command : all)
    for (const cli::Option& option : command.options)
      for (const cli::Command& other : all)
        for (const cli::Option& same : other.options) {
          if (option.names != same.names || option.value.empty()) continue;
          CAPTURE(command.name, other.name, option.names);
          CHECK(option.choices == same.choices);
          CHECK(same.value.empty() == option.value.empty());
        }
}
