#include "core/ir/dump.h"
#include "core/ir/dump_reader.h"

namespace foregather {

using namespace std::string_view_literals;

Result<Graph> DumpReader::run() {
  header();
  job();
  while (!in_.failed() && !ended_ && in_.next_line()) {
    row();
    in_.expect_line_end();
  }
  if (!ended_) in_.fail("the dump ends here, expected more rows and 'end'");
  if (!in_.failed() && in_.next_line()) in_.fail("text after 'end', expected nothing");
  if (in_.failed()) return tl::unexpected(in_.error());
  if (const Status status = references(); !status) return tl::unexpected(status.error());
  return std::move(graph_);
}

void DumpReader::header() {
  if (text_.substr(0, text_.find_first_of("\r\n")) != kDumpHeader) {
    in_.next_line();
    in_.fail("is not a schedule dump, expected a first line '{}'", kDumpHeader);
  }
  in_.next_line();
}

void DumpReader::job() {
  static constexpr std::array kKeys{"world"sv, "parameters"sv, "tokens"sv, "flops"sv};
  if (in_.failed()) return;
  if (!in_.next_line() || in_.symbol() != "job") return in_.fail("expected 'job world=…'");
  std::uint32_t seen = 0;
  while (in_.more()) {
    switch (field(kKeys, seen)) {
      case 0: graph_.world_size = static_cast<std::uint32_t>(in_.number(1, kMostRanks)); break;
      case 1: graph_.parameters = in_.number(0, kMostWork); break;
      case 2: graph_.tokens_per_rank_step = in_.number(0, kMostWork); break;
      case 3: graph_.model_flops_per_rank_step = in_.number(0, kMostWork); break;
      default: break;
    }
  }
}

std::size_t DumpReader::next_row(char letter) const {
  switch (letter) {
    case 'n': return graph_.strings.size();
    case 's': return graph_.scopes.size();
    case 'g': return graph_.groups.size();
    case 'c': return graph_.communicators.size();
    case 'u': return graph_.units.size();
    case 'k': return graph_.costs.size();
    case 'b': return graph_.storages.size();
    case 't': return graph_.tensors.size();
    case 'o': return graph_.ops.size();
    case 'p': return graph_.programs.size();
    case 'q': return graph_.programs.empty() ? 0 : graph_.programs.back().streams.size();
    case 'h': return graph_.programs.empty() ? 0 : graph_.programs.back().threads.size();
    default: return graph_.classes.size();
  }
}

void DumpReader::row() {
  const char letter = in_.peek_id();
  if (letter == 0 || std::string_view("nsgcukbtopqhr").find(letter) == std::string_view::npos)
    return keyword();
  const std::size_t next = next_row(letter);
  if (in_.id(letter, "a row") != next) return in_.fail("expected {}{}, the next row", letter, next);
  switch (letter) {
    case 'n': return string();
    case 's': graph_.scopes.push_back({name_field()}); return;
    case 'g': return group();
    case 'c': return communicator();
    case 'u': return unit();
    case 'k': return cost();
    case 'b': return storage();
    case 't': return tensor();
    case 'o': return op();
    case 'p': return program();
    case 'q': return stream();
    case 'h': return thread();
    default: return rank_class();
  }
}

void DumpReader::keyword() {
  const std::string_view word = in_.symbol();
  if (word == "section") return section();
  if (word == "end") {
    ended_ = true;
    return;
  }
  action(word);
}

StringId DumpReader::name_field() {
  return in_.more() && in_.peek_text() ? graph_.strings.intern(in_.quoted()) : StringId();
}

std::size_t DumpReader::field(std::span<const std::string_view> keys, std::uint32_t& seen) {
  const std::string_view key = in_.symbol();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (keys[i] != key) continue;
    if ((seen >> i & 1U) != 0) in_.fail("{} is given twice, expected once", key);
    seen |= 1U << i;
    in_.expect('=');
    return in_.failed() ? keys.size() : i;
  }
  in_.fail("unknown key '{}'{}", printable(key), did_you_mean(key, keys));
  return keys.size();
}

Status DumpReader::references() const {
  std::vector<BadRow> bad = check_references(graph_, 1);
  // Consumers keep arrays of all events; a few bytes must not name millions.
  const std::size_t most_events = (std::size_t{1} << 20) + 4 * action_rows_;
  for (std::uint32_t p = 0; p < graph_.programs.size() && bad.empty(); ++p)
    if (graph_.programs[p].events.end() > most_events)
      bad.push_back(
          {RowTable::program, p, 0, 0, Section::init,
           fmt::format("more events than {}, for {} actions", most_events, action_rows_)});
  if (bad.empty()) return {};
  return fail_at(place_of(bad[0]), "{}: {}", bad[0].label(), bad[0].message);
}

std::string DumpReader::place_of(const BadRow& bad) const {
  const char wanted = static_cast<char>(bad.table);
  DumpLexer in(text_, path_);
  std::int64_t program = -1;
  std::int64_t thread = -1;
  std::int64_t position = -1;
  Section section = Section::init;
  const auto is_wanted = [&](char letter, std::uint32_t row) {
    const bool has_owner = letter == 'q' || letter == 'h' || letter == 'a';
    return letter == wanted && row == bad.row && (!has_owner || program == bad.program) &&
           (letter != 'a' || (thread == bad.thread && section == bad.section));
  };
  for (in.next_line(); in.next_line();) {
    const char letter = in.peek_id();
    if (letter != 0) {
      const std::uint32_t row = in.id(letter, "a row");
      if (letter == 'p') program = row;
      if (letter == 'h') thread = row;
      if (is_wanted(letter, row)) break;
      continue;
    }
    const std::string_view word = in.symbol();
    if (word == "job") {
      if (is_wanted('j', 0)) break;
    } else if (word == "section") {
      section = parse<Section>(in.symbol()).value_or(Section::init);
      position = -1;
    } else if (is_wanted('a', static_cast<std::uint32_t>(++position))) {
      break;
    }
  }
  return in.place();
}

Result<Graph> read_dump(std::string_view text, const std::string& path) {
  return DumpReader(text, path).run();
}

}  // namespace foregather
