#include <fmt/format.h>

#include "cli/help.h"
#include "cli/manual.h"

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

}  // namespace

std::string bash_completion(std::span<const Command> commands) {
  std::string script =
      "# Completion of bash for foregather.\n"
      "_foregather() {\n"
      "  local word=${COMP_WORDS[COMP_CWORD]} options=--help\n"
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
      "  elif [[ ${{COMP_WORDS[1]}} == help ]]; then\n"
      "    COMPREPLY=($(compgen -W '{0}' -- \"$word\"))\n"
      "  elif [[ $word == -* ]]; then\n"
      "    COMPREPLY=($(compgen -W \"$options\" -- \"$word\"))\n"
      "  else\n"
      "    mapfile -t COMPREPLY < <(compgen -f -- \"$word\")\n"
      "  fi\n"
      "}}\n"
      "complete -o filenames -F _foregather foregather\n",
      all_names(commands));
  return script;
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
      ")\n"
      "if ((CURRENT == 2)); then\n"
      "  _describe command commands\n"
      "  return\n"
      "fi\n"
      "case $words[2] in\n"
      "  help) _describe command commands ;;\n";
  for (const Command& command : commands) {
    script += fmt::format("  {}) _arguments", command.name);
    for (const Option& option : command.options)
      for (const std::string& name : names_of(option))
        script += fmt::format(" \\\n    '*{}[{}]{}'", name, plain(option.doc),
                              option.value.empty() ? "" : ":" + plain(option.value) + ":_files");
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
      script +=
          fmt::format("complete -c foregather -n '__fish_seen_subcommand_from {}'{}{} -d '{}'\n",
                      command.name, names, option.value.empty() ? "" : " -r", plain(option.doc));
    }
  return script;
}

}  // namespace foregather::cli
