#include <algorithm>
#include <array>
#include <ranges>
#include <fmt/format.h>

#include "cli/help.h"
#include "cli/manual.h"
#include "tasks/keys.h"

namespace foregather::cli {
namespace {

// "-o" and "--output" of "-o,--output".
std::vector<std::string> names_of(const Option& option) {
  std::vector<std::string> names;
  if (!option.names.starts_with('-')) return names;
  for (std::size_t at = 0; at < option.names.size();) {
    const auto end = std::min(option.names.find(',', at), option.names.size());
    names.push_back(option.names.substr(at, end - at));
    at = end + 1;
  }
  return names;
}

std::string all_names(std::span<const Command> commands) {
  std::string names;
  for (const Command& command : commands) names += std::string(command.name) + ' ';
  return names + "help";
}

// For quotes of shells.
std::string plain(std::string_view doc) {
  std::string text;
  for (const char c : brief(doc.substr(0, doc.find('\n'))))
    if (c != '\'' && c != '[' && c != ']' && c != ':' && c != '\\') text += c;
  return text;
}

/// What the value of an option may be.
struct Values {
  std::vector<std::string> words;
  bool may_be_file = false;
  bool goes_on = false;  ///< behind a word: "train.seq_len=" is only begun
};

bool names_file(const Option& option) {
  return option.value.find('.') != std::string::npos || option.value.starts_with("OUT") ||
         std::ranges::count(std::array{"CSV", "DIR", "FILE"}, option.value) > 0;
}

Values values_of(const Option& option) {
  Values values;
  values.may_be_file = names_file(option) && option.value.find("..") == std::string::npos;
  if (option.value.find('|') != std::string::npos) {
    for (const auto word : std::views::split(option.value, '|'))
      values.words.emplace_back(word.begin(), word.end());
  } else if (option.value.starts_with("KEY=")) {
    values.goes_on = true;
    for (const tasks::KeyHelp& key : tasks::workload_keys()) values.words.push_back(key.name + '=');
    if (option.names == "--vary") {
      values.words.emplace_back("hw=");
      for (const std::string& pass : tasks::pass_names())
        values.words.push_back("what-if." + pass + '=');
    }
  } else if (option.value == "PASS") {
    values.goes_on = true;
    values.words = tasks::pass_names();
  } else if (option.names.ends_with("--hw")) {
    values.words = tasks::hardware_names();
    values.may_be_file = true;
  } else {
    values.words = option.choices;
  }
  return values;
}

/// Options of a name take the same values in all commands.
struct NamedValues {
  std::vector<std::string> names;
  Values values;
};

std::vector<NamedValues> all_values(std::span<const Command> commands) {
  std::vector<NamedValues> all;
  for (const Command& command : commands)
    for (const Option& option : command.options) {
      const std::vector<std::string> names = names_of(option);
      if (option.value.empty() || names.empty()) continue;
      if (std::ranges::find(all, names, &NamedValues::names) == all.end())
        all.push_back({names, values_of(option)});
    }
  return all;
}

// "hw" of "--hw".
std::string bare(const std::string& name) { return name.substr(name.find_first_not_of('-')); }

}  // namespace

std::string bash_completion(std::span<const Command> commands) {
  std::string script =
      "# Completion of bash for foregather.\n"
      "_foregather() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options=--help before=\n"
      "  ((COMP_CWORD == 0)) || before=${COMP_WORDS[COMP_CWORD - 1]}\n"
      "  [[ $word != = ]] || word=\n"
      "  [[ $before != = ]] || before=${COMP_WORDS[COMP_CWORD - 2]}\n"
      "  case ${COMP_WORDS[1]} in\n";
  for (const Command& command : commands) {
    script += fmt::format("    {}) options='", command.name);
    for (const Option& option : command.options)
      for (const std::string& name : names_of(option)) script += name + ' ';
    script += "--help' ;;\n";
  }
  script += fmt::format(
      "  esac\n"
      "  if ((COMP_CWORD == 1)); then\n"
      "    COMPREPLY=($(compgen -W '{0} --help --version' -- \"$word\"))\n"
      "    return\n"
      "  elif [[ ${{COMP_WORDS[1]}} == help ]]; then\n"
      "    COMPREPLY=($(compgen -W '{0}' -- \"$word\"))\n"
      "    return\n"
      "  elif [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
      "    return\n"
      "  fi\n"
      "  case $before in\n",
      all_names(commands));
  for (const NamedValues& option : all_values(commands)) {
    const Values& values = option.values;
    if (values.words.empty() && values.may_be_file) continue;
    script += fmt::format("    {}) mapfile -t COMPREPLY < <(compgen {}-W '{}' -- \"$word\")",
                          fmt::join(option.names, "|"), values.may_be_file ? "-f " : "",
                          fmt::join(values.words, " "));
    // As file names their "=" would be escaped.
    if (values.goes_on) script += "; compopt +o filenames -o nospace 2>/dev/null";
    script += " ;;\n";
  }
  return script +
         "    *) mapfile -t COMPREPLY < <(compgen -f -- \"$word\") ;;\n"
         "  esac\n"
         "}\n"
         "complete -o filenames -F _foregather foregather\n";
}

std::string zsh_completion(std::span<const Command> commands) {
  std::string script =
      "#compdef foregather\n"
      "local -a commands\n"
      "commands=(\n";
  for (const Command& command : commands)
    script += fmt::format("  '{}:{}'\n", command.name, plain(command.summary));
  script +=
      "  'help:all about a command'\n"
      ")\n";
  for (const NamedValues& option : all_values(commands)) {
    const Values& values = option.values;
    if (values.words.empty()) continue;
    script += fmt::format("_foregather_{}() {{ compadd {}-- {}{} }}\n", bare(option.names.back()),
                          values.goes_on ? "-S '' " : "", fmt::join(values.words, " "),
                          values.may_be_file ? "; _files" : "");
  }
  script +=
      "if ((CURRENT == 2)); then\n"
      "  _describe command commands\n"
      "  return\n"
      "fi\n"
      "case $words[2] in\n"
      "  help) _describe command commands ;;\n";
  for (const Command& command : commands) {
    script += fmt::format("  {}) _arguments", command.name);
    for (const Option& option : command.options) {
      const std::vector<std::string> names = names_of(option);
      const Values values = values_of(option);
      for (const std::string& name : names) {
        const std::string action = !values.words.empty() ? "_foregather_" + bare(names.back())
                                   : values.may_be_file  ? "_files"
                                                         : " ";
        script += fmt::format(" \\\n    '*{}[{}]{}'", name, plain(option.doc),
                              option.value.empty() ? "" : ":" + plain(option.value) + ":" + action);
      }
    }
    script += " \\\n    '*:file:_files' ;;\n";
  }
  return script + "esac\n";
}

std::string fish_completion(std::span<const Command> commands) {
  std::string script = "# Completion of fish for foregather.\n";
  for (const Command& command : commands)
    script += fmt::format("complete -c foregather -n __fish_use_subcommand -f -a {} -d '{}'\n",
                          command.name, plain(command.summary));
  script += fmt::format(
      "complete -c foregather -n __fish_use_subcommand -f -a help -d 'all about a command'\n"
      "complete -c foregather -n '__fish_seen_subcommand_from help' -f -a '{}'\n",
      all_names(commands));
  for (const Command& command : commands)
    for (const Option& option : command.options) {
      std::string names;
      for (const std::string& name : names_of(option))
        names += name.starts_with("--") ? " -l " + name.substr(2) : " -s " + name.substr(1);
      if (names.empty()) continue;
      const Values values = values_of(option);
      std::string takes = option.value.empty() ? "" : values.may_be_file ? " -r" : " -x";
      if (!values.words.empty()) takes += fmt::format(" -a '{}'", fmt::join(values.words, " "));
      script +=
          fmt::format("complete -c foregather -n '__fish_seen_subcommand_from {}'{}{} -d '{}'\n",
                      command.name, names, takes, plain(option.doc));
    }
  return script;
}

}  // namespace foregather::cli
