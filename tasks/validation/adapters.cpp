#include "tasks/validation/adapters.h"

#include <algorithm>
#include <charconv>
#include <string>
#include <utility>
#include <vector>

#include "core/base/text.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

enum class Subject { anything, network, inside };

constexpr std::string_view kNames[] = {"edr",   "hdr",      "ndr",        "xdr",       "efa",
                                       "ib",    "roce",     "infiniband", "slingshot", "connectx",
                                       "cx6",   "cx7",      "cx8",        "nic",       "nics",
                                       "hca",   "hcas",     "adapter",    "adapters",  "rail",
                                       "rails", "ethernet", "bluefield",  "mellanox",  "tcpxo"};
constexpr std::string_view kNetwork[] = {
    "rdma",          "tcp",      "tcpx",      "network",  "fastrak", "inter node", "internode",
    "between nodes", "per node", "each node", "spectrum", "fabric",  "interfaces", "gbe"};
constexpr std::string_view kInside[] = {"nvlink", "nvswitch", "pcie",    "hbm",
                                        "xgmi",   "infinity", "in node", "within a node"};

struct Part {
  std::string text, words;  ///< spaced, and in lower case
  Subject subject = Subject::anything;
};

class Parting {
 public:
  std::vector<Part> part(std::string_view text) {
    const std::string words = lower(text);
    std::size_t begin = 0;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = sign_at(words, at);
      if (length == 0) {
        ++at;
        continue;
      }
      end_part(text.substr(begin, at - begin));
      if (text[at] == '(') around_ = parts_.empty() ? Subject::anything : parts_.back().subject;
      if (text[at] == ')') around_ = Subject::anything;
      begin = at += length;
    }
    end_part(text.substr(begin));
    return std::move(parts_);
  }

 private:
  /// The length of what parts the text here; 0: nothing.
  static std::size_t sign_at(std::string_view text, std::size_t at) {
    constexpr std::string_view kSigns[] = {"(", ")",     "+",      ",",   ";",   "|",
                                           "&", " and ", " with ", " - ", " / ", "\xe2\x80\x93"};
    const bool is_separator =  // "3,200"
        text[at] == ',' && at > 0 && at + 1 < text.size() && is_digit(text[at - 1]) &&
        is_digit(text[at + 1]);
    for (const std::string_view sign : kSigns)
      if (!is_separator && text.substr(at).starts_with(sign)) return sign.size();
    return 0;
  }

  void end_part(std::string_view text) {
    if (trimmed(text).empty()) return;
    Part part{spaced(trimmed(text)), {}, around_};
    part.words = lower(part.text);
    if (says_any(part.words, kNames) || says_any(part.words, kNetwork) ||
        part.words.find("gbe") != std::string::npos)
      part.subject = Subject::network;
    else if (says_inside(part.words))
      part.subject = Subject::inside;
    parts_.push_back(std::move(part));
  }

  static bool says_inside(std::string_view words) {  // "nvlink4", "nvlinks", "hbm3e"
    return std::any_of(std::begin(kInside), std::end(kInside), [&](std::string_view name) {
      return words.find(name) != std::string_view::npos;
    });
  }

  std::vector<Part> parts_;
  Subject around_ = Subject::anything;
};

/// The number that ends before `end`, spaces between them; moves `end` to its beginning.
std::optional<double> number_before(std::string_view text, std::size_t& end) {
  std::size_t last = end;
  while (last > 0 && text[last - 1] == ' ') --last;
  std::size_t first = last;
  const auto is_of_number = [](char c) { return is_digit(c) || c == '.' || c == ','; };
  while (first > 0 && is_of_number(text[first - 1])) --first;
  std::string digits(text.substr(first, last - first));
  std::erase(digits, ',');
  double value = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), value).ec != std::errc())
    return std::nullopt;
  end = first;
  return value;
}

/// "8x", "8 x", "two" before `end`, "8" too where `is_name` follows it.
std::optional<int> count_before(std::string_view words, std::size_t end, bool is_name) {
  constexpr std::pair<std::string_view, int> kCounts[] = {
      {"one", 1}, {"single", 1}, {"two", 2}, {"dual", 2}, {"four", 4}, {"quad", 4}, {"eight", 8}};
  while (end > 0 && words[end - 1] == ' ') --end;
  for (const auto& [word, count] : kCounts)
    if (words.substr(0, end).ends_with(word) &&
        (end == word.size() || !is_letter(words[end - word.size() - 1])))
      return count;
  const bool is_times = end > 0 && words[end - 1] == 'x';
  if (!is_times && !is_name) return std::nullopt;
  if (is_times) --end;
  constexpr double kMostPlain = 16;  // "200 HDR"
  const auto count = number_before(words, end);
  if (!count || (!is_times && *count > kMostPlain)) return std::nullopt;
  if (end > 0 && is_letter(words[end - 1])) return std::nullopt;  // "cx7 NIC"
  for (const std::string_view model : {"connectx ", "bluefield ", "slingshot ", "gen ", "pcie "})
    if (words.substr(0, end).ends_with(model)) return std::nullopt;
  return static_cast<int>(std::clamp(*count, 1.0, 64.0));
}

/// "x8", "x 8" behind a rate.
std::optional<int> count_behind(std::string_view rest) {
  rest = trimmed(rest);
  if (!rest.starts_with('x')) return std::nullopt;
  rest = trimmed(rest.substr(1));
  int count = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), count);
  const bool ends = end == rest.data() + rest.size() || *end == ' ';
  if (error != std::errc() || !ends || count < 1 || count > 64) return std::nullopt;
  return count;
}

struct Named {
  std::optional<int> count;
  std::size_t end = 0;  ///< behind the name
};

/// The last count before the name of adapters: "4x EDR InfiniBand", "8 NICs".
Named count_of_name(std::string_view words) {
  Named best;
  for (const std::string_view name : kNames)
    for (auto at = words.find(name); at != std::string_view::npos; at = words.find(name, at + 1)) {
      if (at > 0 && words[at - 1] != ' ') continue;
      if (const auto count = count_before(words, at, true); count && at + name.size() > best.end)
        best = {count, at + name.size()};
    }
  return best;
}

bool starts_with_any(std::string_view text, std::initializer_list<std::string_view> beginnings) {
  return std::any_of(beginnings.begin(), beginnings.end(),
                     [&](std::string_view beginning) { return text.starts_with(beginning); });
}

bool is_each_gpu(std::string_view rest) {
  return starts_with_any(trimmed(rest), {"per gpu", "/gpu", "/ gpu", "each gpu", "a gpu"});
}

constexpr std::string_view kEachGpu[] = {"per gpu", "each gpu"};
constexpr std::string_view kEachNode[] = {"per node", "each node", "per host", "per server"};

struct Unit {
  std::string_view word;
  double gbps;
  bool is_bytes = false;
};
// Bytes have a capital letter, if they are meant.
constexpr Unit kUnits[] = {{"GB/s", 8, true},  {"GBps", 8, true},     {"gb/s", 1, false},
                           {"gbps", 1, false}, {"gbit", 1, false},    {"gbe", 1, false},
                           {"gb ", 1, false},  {"tb/s", 1000, false}, {"tbps", 1000, false}};

/// Rates of links inside a node may stand beside those of adapters: these have a count, or come
/// last.
std::optional<Adapters> rate_of(const Part& part) {
  std::optional<Adapters> best;
  const std::string words = part.words + ' ';
  const std::string text = part.text + ' ';
  for (std::size_t at = 0; at < words.size(); ++at) {
    const auto* const unit = std::find_if(std::begin(kUnits), std::end(kUnits), [&](const Unit& u) {
      return std::string_view(u.is_bytes ? text : words).substr(at).starts_with(u.word);
    });
    std::size_t begin = at;
    if (unit == std::end(kUnits)) continue;
    const bool says_bytes = text[at + 1] == 'B' && text[at + 2] != 'i' && words[at + 2] != 'e';
    if (says_bytes != unit->is_bytes) continue;  // "80GB", "3.35 TB/s"
    const auto speed = number_before(words, begin);
    if (!speed || *speed <= 0) continue;
    const std::string_view rest = std::string_view(words).substr(at + unit->word.size());
    auto count = count_before(words, begin, false);
    if (!count) count = count_behind(rest);
    if (!count) count = count_of_name(std::string_view(words).substr(0, begin)).count;
    const bool is_of_gpu =
        is_each_gpu(rest) || (count.value_or(1) == 1 && says_any(words, kEachGpu));
    const bool is_of_node = !is_of_gpu && !count && says_any(words, kEachNode);
    if (best && best->count && !count) continue;
    best = Adapters{count, *speed * unit->gbps, is_of_gpu, is_of_node};
  }
  return best;
}

/// "200G" is no size where a network is named, or what each GPU has.
std::optional<Adapters> plain_rate_of(const Part& part) {
  for (const int gbps : {25, 40, 50, 100, 200, 400, 800}) {
    const std::string word = std::to_string(gbps) + 'g';
    if (!says(part.words, word)) continue;
    const std::size_t at = part.words.find(word);
    auto count = count_before(part.words, at, false);
    if (!count) count = count_of_name(part.words).count;
    return Adapters{count, static_cast<double>(gbps),
                    count.value_or(1) == 1 && says_any(part.words, kEachGpu),
                    !count && says_any(part.words, kEachNode)};
  }
  return std::nullopt;
}

std::optional<Adapters> named_rate_of(const Part& part) {
  constexpr std::pair<std::string_view, double> kSpeeds[] = {
      {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}};
  for (const auto& [name, gbps] : kSpeeds)
    if (says(part.words, name)) {
      const auto at = part.words.find(name);
      double speed = 0;  // of "HDR100", half of one
      const std::string_view rest = std::string_view(part.words).substr(at + name.size());
      const bool says_speed =
          std::from_chars(rest.data(), rest.data() + rest.size(), speed).ec == std::errc() &&
          speed >= 25;
      auto count = count_before(part.words, at, true);
      if (!count) count = count_behind(rest.substr(std::min(rest.find(' '), rest.size())));
      return Adapters{count, says_speed ? speed : gbps};
    }
  return std::nullopt;
}

/// What no word calls a network may be a link inside a node: these are stated in bytes, and faster
/// than any adapter.
std::optional<Adapters> nameless_rate_of(const Part& part) {
  const auto rate = rate_of(part);
  const bool is_link = rate && !rate->count && rate->gbps > kFastestAdapter &&
                       part.text.find("GB") != std::string::npos;
  return is_link ? std::nullopt : rate;
}

std::optional<Adapters> plain_rate_of_gpu(const Part& part) {
  return says_any(part.words, kEachGpu) ? plain_rate_of(part) : std::nullopt;
}

}  // namespace

std::optional<Adapters> adapters_of(std::string_view text) {
  constexpr std::size_t kLongest = 1000;
  const std::vector<Part> parts = Parting().part(text.substr(0, kLongest));
  using Reader = std::optional<Adapters> (*)(const Part&);
  constexpr std::pair<Subject, Reader> kReaders[] = {
      {Subject::network, rate_of},
      {Subject::network, plain_rate_of},
      {Subject::network, named_rate_of},
      {Subject::anything, nameless_rate_of},
      {Subject::anything, plain_rate_of_gpu},
  };
  std::optional<Adapters> found;
  for (const auto& [subject, read] : kReaders)
    for (const Part& part : parts)
      if (!found && part.subject == subject) found = read(part);
  const bool is_total = found && (found->is_of_node || found->gbps > kFastestAdapter);
  if (!found || found->count || found->is_of_gpu || is_total) return found;
  for (const Part& part : parts)
    if (const Named named = count_of_name(part.words); named.count) {
      found->count = named.count;
      found->is_of_gpu = is_each_gpu(std::string_view(part.words).substr(named.end));
      return found;
    }
  return found;
}

}  // namespace foregather::tasks
