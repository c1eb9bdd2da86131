#include "traces/kineto_event.h"

#include <simdjson.h>

#include <algorithm>
#include <cstring>

#include "traces/decimal_time.h"
#include "traces/json_scan.h"
#include "traces/json_window.h"
#include "traces/scalar.h"

namespace foregather::traces {
namespace {

namespace json = simdjson::ondemand;

static_assert(kJsonPadding >= simdjson::SIMDJSON_PADDING);

// A scalar as the file prints it, without quotes.
std::string_view printed(json::value& value) {
  std::string_view text;
  if (value.get_string().get(text) == simdjson::SUCCESS) return text;
  text = value.raw_json_token();
  while (!text.empty() &&
         (text.back() == ' ' || text.back() == '\n' || text.back() == '\r' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

// A list as the file prints it.
std::string_view raw(json::value& value) {
  std::string_view text;
  return simdjson::to_json_string(value).get(text) == simdjson::SUCCESS ? text : std::string_view();
}

// Some tools that rewrite traces quote what was a number, or print a whole one as a float.
template <class Number>
std::optional<Number> number(json::value& value) {
  Number n = 0;
  bool is_read = false;
  if constexpr (std::is_signed_v<Number>) {
    is_read = value.get_int64().get(n) == simdjson::SUCCESS ||
              value.get_int64_in_string().get(n) == simdjson::SUCCESS;
  } else {
    is_read = value.get_uint64().get(n) == simdjson::SUCCESS ||
              value.get_uint64_in_string().get(n) == simdjson::SUCCESS;
  }
  if (is_read) return n;
  double real = 0;
  constexpr double kLeast = std::is_signed_v<Number> ? -0x1p63 : 0;
  constexpr double kBeyond = std::is_signed_v<Number> ? 0x1p63 : 0x1p64;
  if (value.get_double().get(real) != simdjson::SUCCESS || !(real >= kLeast && real < kBeyond))
    return std::nullopt;
  const auto whole = whole_number(real);
  return whole ? std::optional(static_cast<Number>(*whole)) : std::nullopt;
}

std::int64_t number_or_0(json::value& value) { return number<std::int64_t>(value).value_or(0); }

// Exactly three numbers, else nothing is said.
void read_extent(json::value& value, std::array<std::int64_t, 3>& extent) {
  json::array list;
  if (value.get_array().get(list) != simdjson::SUCCESS) return;
  std::array<std::int64_t, 3> read{};
  std::size_t n = 0;
  for (auto element : list) {
    std::int64_t size = 0;
    if (n == read.size() || element.get_int64().get(size) != simdjson::SUCCESS) return;
    read[n++] = size;
  }
  if (n == read.size()) extent = read;
}

using ArgumentReader = void (*)(json::value&, KinetoEvent&);
struct Argument {
  std::string_view key;
  ArgumentReader read;
};

// Both spellings of the external id are in use.
constexpr Argument kArguments[] = {
    {"correlation",
     [](json::value& v, KinetoEvent& e) { e.correlation = number<std::uint64_t>(v); }},
    {"External id", [](json::value& v, KinetoEvent& e) { e.external = number<std::uint64_t>(v); }},
    {"external id", [](json::value& v, KinetoEvent& e) { e.external = number<std::uint64_t>(v); }},
    {"stream", [](json::value& v, KinetoEvent& e) { e.stream = printed(v); }},
    {"bytes", [](json::value& v, KinetoEvent& e) { e.bytes = number_or_0(v); }},
    {"Bytes", [](json::value& v, KinetoEvent& e) { e.bytes = number_or_0(v); }},
    {"Sequence number",
     [](json::value& v, KinetoEvent& e) { e.sequence = number<std::int64_t>(v); }},
    {"Fwd thread id",
     [](json::value& v, KinetoEvent& e) { e.forward_thread = number<std::int64_t>(v); }},
    {"wait_on_stream", [](json::value& v, KinetoEvent& e) { e.awaited_stream = printed(v); }},
    {"wait_on_cuda_event_record_corr_id",
     [](json::value& v, KinetoEvent& e) { e.recorded = number<std::uint64_t>(v); }},
    {"Collective name", [](json::value& v, KinetoEvent& e) { e.collective = printed(v); }},
    {"dtype", [](json::value& v, KinetoEvent& e) { e.dtype = printed(v); }},
    {"Process Group Name", [](json::value& v, KinetoEvent& e) { e.group = printed(v); }},
    {"Process Group Ranks", [](json::value& v, KinetoEvent& e) { e.ranks = printed(v); }},
    {"In msg nelems", [](json::value& v, KinetoEvent& e) { e.in_elements = number_or_0(v); }},
    {"Out msg nelems", [](json::value& v, KinetoEvent& e) { e.out_elements = number_or_0(v); }},
    {"Group size", [](json::value& v, KinetoEvent& e) { e.group_size = number_or_0(v); }},
    {"Seq",
     [](json::value& v, KinetoEvent& e) { e.collective_sequence = number<std::int64_t>(v); }},
    {"Input Dims", [](json::value& v, KinetoEvent& e) { e.shapes = raw(v); }},
    {"Concrete Inputs", [](json::value& v, KinetoEvent& e) { e.values = raw(v); }},
    {"Input type", [](json::value& v, KinetoEvent& e) { e.types = raw(v); }},
    {"grid", [](json::value& v, KinetoEvent& e) { read_extent(v, e.grid); }},
    {"block", [](json::value& v, KinetoEvent& e) { read_extent(v, e.block); }},
    {"Device Type",
     [](json::value& v, KinetoEvent& e) { e.device_type = number<std::int64_t>(v); }},
    {"Device Id", [](json::value& v, KinetoEvent& e) { e.device_index = number<std::int64_t>(v); }},
    {"Addr",
     [](json::value& v, KinetoEvent& e) { e.address = number<std::uint64_t>(v).value_or(0); }},
    {"Total Allocated", [](json::value& v, KinetoEvent& e) { e.total_allocated = number_or_0(v); }},
    {"Total Reserved", [](json::value& v, KinetoEvent& e) { e.total_reserved = number_or_0(v); }},
    {"step", [](json::value& v, KinetoEvent& e) { e.step = number<std::int64_t>(v); }},
    {"mb_id", [](json::value& v, KinetoEvent& e) { e.micro_batch = number<std::int64_t>(v); }},
    {"model_chunk",
     [](json::value& v, KinetoEvent& e) { e.model_chunk = number<std::int64_t>(v); }},
    {"seq_id",
     [](json::value& v, KinetoEvent& e) { e.sequence_in_step = number<std::int64_t>(v); }},
    {"name", [](json::value& v, KinetoEvent& e) { e.label = printed(v); }},
    {"key", [](json::value& v, KinetoEvent& e) { e.key = printed(v); }},
    {"wire_bytes", [](json::value& v, KinetoEvent& e) { e.wire_bytes = number_or_0(v); }},
    {"flops", [](json::value& v, KinetoEvent& e) { e.flops = number_or_0(v); }}};

// By length and first letter: most keys of most events are none of these.
const Argument* argument(std::string_view key) {
  for (const Argument& known : kArguments)
    if (known.key.size() == key.size() && known.key[0] == key[0] && known.key == key) return &known;
  return nullptr;
}

// With a length that the compiler knows.
template <std::size_t N>
bool is(std::string_view key, const char (&word)[N]) {
  return key.size() == N - 1 && std::memcmp(key.data(), word, N - 1) == 0;
}

simdjson::error_code read_arguments(json::value& value, KinetoEvent& event) {
  json::object arguments;
  if (value.get_object().get(arguments) != simdjson::SUCCESS) return simdjson::SUCCESS;
  for (auto result : arguments) {
    json::field field;
    if (const auto error = std::move(result).get(field)) return error;
    const Argument* const known = argument(plain_key(field.key().raw()));
    if (known != nullptr) known->read(field.value(), event);
  }
  return simdjson::SUCCESS;
}

bool has_arguments(const KinetoEvent& event) { return event.phase != "s" && event.phase != "f"; }

simdjson::error_code read_event(json::object& object, KinetoEvent& event) {
  for (auto result : object) {
    json::field field;
    if (const auto error = std::move(result).get(field)) return error;
    const std::string_view key = plain_key(field.key().raw());
    json::value& value = field.value();
    if (is(key, "ph")) {
      event.phase = printed(value);
      event.has_phase = true;
    } else if (is(key, "name")) {
      event.name = printed(value);
    } else if (is(key, "cat")) {
      event.category = printed(value);
      event.has_category = true;
    } else if (is(key, "pid")) {
      event.process = printed(value);
    } else if (is(key, "tid")) {
      event.thread = printed(value);
    } else if (is(key, "ts")) {
      event.start = printed(value);
      event.has_start = true;
    } else if (is(key, "dur")) {
      event.duration = printed(value);
      event.has_duration = true;
    } else if (is(key, "args") && has_arguments(event)) {
      if (const auto error = read_arguments(value, event)) return error;
    }
  }
  return simdjson::SUCCESS;
}

// False: the text is damaged from here on, as far as the parser sees.
bool read_element(simdjson::simdjson_result<json::value> element,
                  const KinetoEvents::Visitor& visitor) {
  json::value value;
  if (std::move(element).get(value) != simdjson::SUCCESS) return false;
  json::json_type type{};
  if (value.type().get(type) != simdjson::SUCCESS) return false;
  if (type != json::json_type::object) {
    visitor.not_an_object();
    return true;
  }
  json::object object;
  KinetoEvent event;
  if (value.get_object().get(object) != simdjson::SUCCESS ||
      read_event(object, event) != simdjson::SUCCESS)
    return false;
  visitor.event(event);
  return true;
}

}  // namespace

std::int64_t KinetoEvent::threads() const {
  constexpr std::int64_t kMost = std::int64_t{1} << 31;  // of one extent, CUDA's limit
  constexpr std::int64_t kMostThreads = std::int64_t{1} << 60;
  std::int64_t all = 1;
  for (const auto* const extents : {&grid, &block})
    for (const std::int64_t extent : *extents) {
      if (extent <= 0 || extent > kMost || all > kMostThreads / extent) return 0;
      all *= extent;
    }
  return all;
}

EventSpan span_of(const KinetoEvent& event) {
  const DecimalTime start = parse_microseconds(event.has_start ? event.start : "");
  const DecimalTime length =
      event.has_duration ? parse_microseconds(event.duration) : DecimalTime{};
  if (start.bad || length.bad) {
    const BadTime bad = start.bad ? *start.bad : *length.bad;
    if (bad == BadTime::out_of_range) return {0, 0, "time_out_of_range"};
    return {0, 0, start.bad ? "nonnumeric_ts" : "nonnumeric_dur"};
  }
  if (length.time < 0) return {0, 0, "neg_dur"};
  if (length.time > kLatestTime - start.time) return {0, 0, "time_out_of_range"};
  return {start.time, start.time + length.time, {}};
}

struct KinetoEvents::Parser {
  json::parser parser;
  std::string alone;

  std::size_t read_all(std::string_view text, const Visitor& visitor) {
    json::document document;
    json::array array;
    std::size_t n = 0;
    if (parser.iterate(text.data(), text.size(), text.size() + kJsonPadding).get(document) !=
            simdjson::SUCCESS ||
        document.get_array().get(array) != simdjson::SUCCESS)
      return 0;
    for (auto element : array) {
      if (!read_element(element, visitor)) break;
      ++n;
    }
    return n;
  }
};

KinetoEvents::KinetoEvents() : parser_(std::make_unique<Parser>()) {}
KinetoEvents::~KinetoEvents() = default;

void KinetoEvents::read(const JsonWindow& window, const Visitor& visitor) {
  read_window(
      window, parser_->alone,
      [&](std::string_view text) { return parser_->read_all(text, visitor); }, visitor.damaged);
}

}  // namespace foregather::traces
