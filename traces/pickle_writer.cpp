#include "traces/pickle_writer.h"

#include <bit>
#include <limits>
#include <utility>

#include "traces/pickle_opcodes.h"

namespace foregather::traces {
namespace {

constexpr std::size_t kBatch = 1000;  ///< items of a list or dict put in at once, as Python does

char code(PickleOp op) { return static_cast<char>(op); }

}  // namespace

PickleWriter::PickleWriter() : out_{code(PickleOp::proto), 4} {}

void PickleWriter::bytes(std::uint64_t number, std::size_t count) {
  for (std::size_t i = 0; i < count; ++i) out_ += static_cast<char>(number >> (8 * i));
}

void PickleWriter::begin_item() {
  if (levels_.empty()) return;
  Level& level = levels_.back();
  const std::size_t most = level.is_dict ? 2 * kBatch : kBatch;
  if (level.values == most) {
    out_ += code(level.is_dict ? PickleOp::setitems : PickleOp::appends);
    level.values = 0;
  }
  if (level.values == 0) out_ += code(PickleOp::mark);
  ++level.values;
}

PickleWriter& PickleWriter::begin_dict() {
  begin_item();
  out_ += code(PickleOp::empty_dict);
  levels_.push_back({true, 0});
  return *this;
}

PickleWriter& PickleWriter::begin_list() {
  begin_item();
  out_ += code(PickleOp::empty_list);
  levels_.push_back({false, 0});
  return *this;
}

PickleWriter& PickleWriter::end_dict() {
  if (levels_.back().values > 0) out_ += code(PickleOp::setitems);
  levels_.pop_back();
  return *this;
}

PickleWriter& PickleWriter::end_list() {
  if (levels_.back().values > 0) out_ += code(PickleOp::appends);
  levels_.pop_back();
  return *this;
}

PickleWriter& PickleWriter::value(std::string_view text) {
  begin_item();
  const auto [entry, is_new] = memo_.try_emplace(std::string(text), next_memo_);
  if (!is_new) {
    const bool is_short = entry->second < 256;
    out_ += code(is_short ? PickleOp::binget : PickleOp::long_binget);
    bytes(entry->second, is_short ? 1 : 4);
    return *this;
  }
  const bool is_short = text.size() < 256;
  out_ += code(is_short ? PickleOp::short_binunicode : PickleOp::binunicode);
  bytes(text.size(), is_short ? 1 : 4);
  out_ += text;
  out_ += code(PickleOp::memoize);
  ++next_memo_;
  return *this;
}

PickleWriter& PickleWriter::value(std::int64_t number) {
  begin_item();
  const auto bits = static_cast<std::uint64_t>(number);
  if (number >= 0 && number < 256) {
    out_ += code(PickleOp::binint1);
    bytes(bits, 1);
  } else if (number >= 0 && number < 65536) {
    out_ += code(PickleOp::binint2);
    bytes(bits, 2);
  } else if (number >= std::numeric_limits<std::int32_t>::min() &&
             number <= std::numeric_limits<std::int32_t>::max()) {
    out_ += code(PickleOp::binint);
    bytes(bits, 4);
  } else {
    out_ += code(PickleOp::long1);
    out_ += char{8};
    bytes(bits, 8);
  }
  return *this;
}

PickleWriter& PickleWriter::value(std::uint64_t number) {
  const auto as_signed = static_cast<std::int64_t>(number);
  if (as_signed >= 0) return value(as_signed);
  begin_item();
  out_ += code(PickleOp::long1);
  out_ += char{9};
  bytes(number, 8);
  out_ += '\0';
  return *this;
}

PickleWriter& PickleWriter::value(double number) {
  begin_item();
  out_ += code(PickleOp::binfloat);
  const auto bits = std::bit_cast<std::uint64_t>(number);
  for (int shift = 56; shift >= 0; shift -= 8) out_ += static_cast<char>(bits >> shift);
  return *this;
}

PickleWriter& PickleWriter::value(bool flag) {
  begin_item();
  out_ += code(flag ? PickleOp::newtrue : PickleOp::newfalse);
  return *this;
}

PickleWriter& PickleWriter::pair(std::int64_t first, std::int64_t second) {
  begin_item();
  levels_.push_back({false, 1});  // the parts are no items of the container
  value(first);
  value(second);
  levels_.pop_back();
  out_ += code(PickleOp::tuple2);
  return *this;
}

std::string PickleWriter::take() { return std::exchange(out_, {}); }

void PickleWriter::finish() { out_ += code(PickleOp::stop); }

}  // namespace foregather::traces
