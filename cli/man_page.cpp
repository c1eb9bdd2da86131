#include <algorithm>
#include <fmt/format.h>

#include "cli/help.h"
#include "cli/manual.h"
#include "tasks/version.h"

namespace foregather::cli {
namespace {

// Text as troff prints it: a dash that can be searched, no escapes, no request at a line's start.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if ((c == '.' || c == '\'') && (out.empty() || out.back() == '\n')) out += "\\&";
    if (c == '\\')
      out += "\\e";
    else if (c == '-')
      out += "\\-";
    else
      out += c;
  }
  return out;
}

// Empty lines separate paragraphs.
std::string paragraphs(std::string_view text, std::string_view request) {
  std::string out;
  while (!text.empty()) {
    const auto end = text.find("\n\n");
    if (!out.empty()) out += fmt::format("{}\n", request);
    out += escaped(text.substr(0, end)) + "\n";
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 2);
  }
  return out;
}

// Lines of an option's text stay lines.
std::string lines(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    out += escaped(text.substr(at, end - at)) + "\n";
    if (end != text.size()) out += ".br\n";
    at = end + 1;
  }
  return out;
}

std::string title(std::string_view page) {
  const std::string_view version = tasks::version();
  return fmt::format(".TH {} 1 \"\" \"{}\" \"Foregather\"\n.nh\n", page, version);
}

std::string option_entry(const Option& option) {
  return fmt::format(".TP\n.B {}\n", escaped(shown_names(option))) + lines(option.doc);
}

constexpr std::string_view kExitStatus =
    ".SH EXIT STATUS\n"
    "0: done; that memory runs out in a prediction is a result. 1: the work failed. 2: bad usage "
    "or "
    "input.\n";

}  // namespace

std::string man_page(std::span<const Command> commands) {
  std::string page = title("FOREGATHER");
  page +=
      ".SH NAME\nforegather \\- predicts and measures what sharded training costs\n"
      ".SH SYNOPSIS\n.B foregather\n.I COMMAND\n[\\fIOPTION\\fR]...\n"
      ".SH DESCRIPTION\nPredicts step time, communication and memory peaks of FSDP, ZeRO and DDP "
      "schedules, and records real runs, so that both can be compared op by op.\n.SH COMMANDS\n";
  for (const Command& command : commands)
    page += fmt::format(".TP\n.B {}\n{}; see \\fBforegather\\-{}\\fR(1)\n", command.name,
                        escaped(command.summary), command.name);
  return page + std::string(kExitStatus);
}

std::string man_page(const Command& command) {
  std::string page = title(fmt::format("FOREGATHER-{}", command.name));
  page += fmt::format(".SH NAME\nforegather\\-{} \\- {}\n", command.name, escaped(command.summary));
  page += fmt::format(".SH SYNOPSIS\n.B foregather {}\n", command.name);
  for (const Option& option : command.options)
    if (!option.names.starts_with('-') && !option.rest)
      page += fmt::format(".I {}\n", option.names);
  if (const std::string needed = required_options(command); !needed.empty())
    page += escaped(needed.substr(1)) + "\n";
  page += "[\\fIOPTION\\fR]...\n";
  for (const Option& option : command.options)
    if (option.rest) page += fmt::format("\\-\\- \\fI{}\\fR...\n", option.names);
  page += ".SH DESCRIPTION\n" + paragraphs(command.description, ".PP");
  if (!command.options.empty()) page += ".SH OPTIONS\n";
  for (const Option& option : command.options) page += option_entry(option);
  if (!command.examples.empty()) page += ".SH EXAMPLES\n";
  for (const std::string& example : command.examples) {
    const auto tab = example.find('\t');
    page += fmt::format(".TP\n.B {}\n{}\n", escaped(example.substr(0, tab)),
                        escaped(example.substr(tab + 1)));
  }
  return page + std::string(kExitStatus) + ".SH SEE ALSO\n.BR foregather (1)\n";
}

}  // namespace foregather::cli
