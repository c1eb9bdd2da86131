#include "core/run/key.h"

#include <fmt/format.h>

#include <charconv>

namespace foregather::run {
namespace {

std::optional<std::uint32_t> number(std::string_view digits) {
  std::uint32_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

/// Takes "LETTER NUMBER /" off the front.
std::optional<std::uint32_t> take_front(std::string_view& key, char letter) {
  const std::size_t slash = key.find('/');
  if (slash == key.npos || !key.starts_with(letter)) return std::nullopt;
  const auto value = number(key.substr(1, slash - 1));
  key.remove_prefix(slash + 1);
  return value;
}

/// Takes "/ WORD" off the back.
std::string_view take_back(std::string_view& key) {
  const std::size_t slash = key.rfind('/');
  if (slash == key.npos) return {};
  const std::string_view word = key.substr(slash + 1);
  key.remove_suffix(word.size() + 1);
  return word;
}

/// Takes "@ COMMUNICATOR # NUMBER" off the back, if it is there. Names of communicators may hold
/// any character, those of kinds no '@'.
void drop_communicator(std::string_view& key) {
  const std::size_t hash = key.rfind('#');
  if (hash == key.npos || !number(key.substr(hash + 1))) return;
  for (std::size_t at = key.find('@'); at < hash; at = key.find('@', at + 1)) {
    std::string_view rest = key.substr(0, at);
    if (!number(take_back(rest)) || !parse<OpKind>(take_back(rest))) continue;
    key = key.substr(0, at);
    return;
  }
}

}  // namespace

std::string op_key(RunView run, OpRow row) {
  const OpRecord op = run.ops.at(row);
  const StepInfo& step = run.steps[op.step.row()];
  const std::string_view scope = run.text_of(op.scope);
  std::string key =
      fmt::format("r{}/s{}/m{}/{}/{}/{}/{}", run.classes[step.rank_class.row()].ranks.front(),
                  step.number, op.micro_batch, scope.empty() ? "-" : scope,
                  foregather::name(op.phase), foregather::name(op.kind), op.ordinal);
  if (op.communicator)
    key += fmt::format("@{}#{}", run.text_of(run.communicators[op.communicator.row()].name),
                       op.sequence);
  return key;
}

std::optional<KeyedOp> parse_op_key(std::string_view key) {
  if (!take_front(key, 'r') || !take_front(key, 's')) return std::nullopt;
  const auto micro_batch = take_front(key, 'm');
  if (!micro_batch || *micro_batch > 0xffff) return std::nullopt;
  drop_communicator(key);
  const auto ordinal = number(take_back(key));
  const auto kind = parse<OpKind>(take_back(key));
  const auto phase = parse<Phase>(take_back(key));
  if (!ordinal || !kind || !phase || key.empty()) return std::nullopt;
  return KeyedOp{static_cast<std::uint16_t>(*micro_batch), key == "-" ? "" : key, *phase, *kind,
                 *ordinal};
}

}  // namespace foregather::run
