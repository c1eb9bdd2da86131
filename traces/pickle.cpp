#include "traces/pickle.h"

#include <bit>
#include <string>
#include <vector>

#include "traces/pickle_opcodes.h"
#include "traces/unpack.h"

namespace foregather::traces {
namespace {

using Kind = PickleValue::Kind;

constexpr std::size_t kNulBytesAfterEnd = 3;

// Numbers are little endian, whatever the machine.
std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

double big_endian_double(std::string_view bytes) {
  std::uint64_t value = 0;
  for (const char c : bytes) value = value << 8 | static_cast<unsigned char>(c);
  return std::bit_cast<double>(value);
}

// Two's complement of any length.
PickleValue long_integer(std::string_view bytes) {
  if (bytes.empty()) return PickleValue::of_integer(0);
  const bool is_negative = (bytes.back() & 0x80) != 0;
  const char filler = is_negative ? '\xff' : '\0';
  while (bytes.size() > 8 && bytes.back() == filler) bytes.remove_suffix(1);
  if (bytes.size() > 8) return PickleValue::with(Kind::big, 0);
  std::uint64_t value = little_endian(bytes);
  if (is_negative && bytes.size() < 8) value |= ~std::uint64_t{0} << (8 * bytes.size());
  const auto integer = static_cast<std::int64_t>(value);
  const bool beyond = (integer < 0) != is_negative;
  if (beyond && is_negative) return PickleValue::with(Kind::big, 0);
  return PickleValue::with(beyond ? Kind::unsigned_integer : Kind::integer, integer);
}

class Machine {
 public:
  Machine(ByteStream& stream, PickleHeap& heap, PickleShapes& shapes, const PickleLimits& limits)
      : stream_(stream), heap_(heap), shapes_(shapes), limits_(limits) {}

  Result<PickleValue> run() {
    if (!begin()) return tl::unexpected(*error_);
    while (!stopped_)
      if (!step()) return tl::unexpected(*error_);
    return finish();
  }

 private:
  template <class... Args>
  bool refuse(fmt::format_string<Args...> format, Args&&... args) {
    if (!error_)
      error_ = Error{
          {},
          fmt::format("byte {}: {}", op_offset_, fmt::format(format, std::forward<Args>(args)...)),
          Fault::input};
    return false;
  }

  bool begin() {
    const std::string_view head = stream_.peek(4);
    if (is_gzip(head) || is_zstd(head))
      return refuse("is packed by {}, expected a pickle: unpack it first",
                    is_gzip(head) ? "gzip" : "zstd");
    if (head.size() < 2 || static_cast<std::uint8_t>(head[0]) != 0x80)
      return refuse("begins with {}, expected a pickle of protocol 2 to 5", shown(head));
    const int protocol = static_cast<unsigned char>(head[1]);
    if (protocol < 2 || protocol > 5)
      return refuse("is a pickle of protocol {}, expected 2 to 5", protocol);
    stream_.skip(2);
    return true;
  }

  static std::string shown(std::string_view head) {
    if (head.empty()) return "nothing";
    const auto byte = static_cast<unsigned char>(head[0]);
    return byte > 0x20 && byte < 0x7f ? fmt::format("'{}'", head[0])
                                      : fmt::format("byte 0x{:02x}", byte);
  }

  Result<PickleValue> finish() {
    op_offset_ = stream_.offset();
    const std::string_view after = stream_.peek(kNulBytesAfterEnd + 1);
    if (after.size() > kNulBytesAfterEnd ||
        after.find_first_not_of('\0') != std::string_view::npos) {
      refuse("{} bytes follow the end of the pickle, expected none", stream_.remaining());
      return tl::unexpected(*error_);
    }
    return result_;
  }

  // --- reading ---

  bool read(std::size_t count, std::string_view& bytes) {
    bytes = stream_.peek(count);
    if (bytes.size() < count)
      return refuse("the file ends inside an opcode, expected {} more byte{}", count - bytes.size(),
                    count - bytes.size() == 1 ? "" : "s");
    stream_.skip(count);
    return true;
  }

  bool read_number(std::size_t size, std::uint64_t& value) {
    std::string_view bytes;
    if (!read(size, bytes)) return false;
    value = little_endian(bytes);
    return true;
  }

  // A length of `size` bytes, no longer than what is left.
  bool read_length(std::size_t size, std::size_t& length) {
    std::uint64_t value = 0;
    if (!read_number(size, value)) return false;
    if (value > static_cast<std::uint64_t>(stream_.remaining()))
      return refuse("a length of {} bytes, expected at most the {} that are left", value,
                    stream_.remaining());
    length = static_cast<std::size_t>(value);
    return true;
  }

  bool read_text(std::size_t size_of_length) {
    std::size_t length = 0;
    if (!read_length(size_of_length, length)) return false;
    if (length > limits_.text)
      return refuse("a text of {} bytes, expected at most {}", length, limits_.text);
    std::string_view text;
    return read(length, text) && push(PickleValue::of_text(heap_.strings.intern(text)));
  }

  bool skip_bytes(std::size_t size_of_length) {
    std::size_t length = 0;
    if (!read_length(size_of_length, length)) return false;
    constexpr std::size_t kPiece = 1 << 16;
    std::string_view bytes;
    for (; length > 0; length -= bytes.size())
      if (!read(std::min(length, kPiece), bytes)) return false;
    return push(PickleValue::with(Kind::bytes, 0));
  }

  bool read_integer(std::size_t size, bool is_signed) {
    std::uint64_t value = 0;
    if (!read_number(size, value)) return false;
    const auto integer = static_cast<std::int64_t>(value);
    return push(PickleValue::of_integer(is_signed ? static_cast<std::int32_t>(integer) : integer));
  }

  bool read_long(std::size_t size_of_length) {
    std::size_t length = 0;
    if (!read_length(size_of_length, length)) return false;
    if (length > limits_.text)
      return refuse("an integer of {} bytes, expected at most {}", length, limits_.text);
    std::string_view bytes;
    return read(length, bytes) && push(long_integer(bytes));
  }

  bool read_real() {
    std::string_view bytes;
    return read(8, bytes) && push(PickleValue::of_real(big_endian_double(bytes)));
  }

  // --- the stack ---

  bool push(PickleValue value) {
    if (stack_.size() >= limits_.stack)
      return refuse("more than {} values wait for a container, expected fewer", limits_.stack);
    if (is_empty(value) && ++empty_ > limits_.empty)
      return refuse("more than {} empty containers wait for their content, expected fewer",
                    limits_.empty);
    stack_.push_back(value);
    return true;
  }

  // A list inside a list inside a list … begins as many empty ones.
  bool is_empty(const PickleValue& value) const {
    return value.is(Kind::container) && heap_.is_empty(value.container());
  }

  void leave_stack(const PickleValue& value) {
    if (is_empty(value) && empty_ > 0) --empty_;
  }

  std::size_t floor() const { return marks_.empty() ? 0 : marks_.back(); }

  bool has(std::size_t count) {
    return stack_.size() - floor() >= count || refuse("the stack is empty, expected a value");
  }

  bool mark() {
    if (marks_.size() >= limits_.marks)
      return refuse("more than {} containers inside each other, expected fewer", limits_.marks);
    marks_.push_back(stack_.size());
    return true;
  }

  bool pop_mark(std::size_t& from) {
    if (marks_.empty()) return refuse("no mark, expected one");
    from = marks_.back();
    marks_.pop_back();
    return true;
  }

  bool remember(std::uint64_t index) {
    if (!has(1)) return false;
    // Writers number objects in order, so no number exceeds the bytes read.
    if (index >= limits_.memo || index > static_cast<std::uint64_t>(stream_.offset()))
      return refuse("memo entry {}, expected a smaller number", index);
    if (index >= memo_.size()) memo_.resize(static_cast<std::size_t>(index) + 1);
    memo_[static_cast<std::size_t>(index)] = stack_.back();
    return true;
  }

  bool remember_at(std::size_t size) {
    std::uint64_t index = 0;
    return read_number(size, index) && remember(index);
  }

  bool recall(std::size_t size) {
    std::uint64_t index = 0;
    if (!read_number(size, index)) return false;
    if (index >= memo_.size() || !memo_[static_cast<std::size_t>(index)])
      return refuse("memo entry {} does not exist, expected one below {}", index, memo_.size());
    return push(*memo_[static_cast<std::size_t>(index)]);
  }

  // --- containers ---

  // What becomes part of a container is complete: it may be a record.
  bool complete(PickleValue& value) {
    value = heap_.resolved(value);
    if (!value.is(Kind::container) || heap_.offered(value.container())) return true;
    const auto items = heap_.items(value.container());
    const bool is_dict = heap_.kind(value.container()) == PickleContainer::dict;
    const auto record = is_dict ? shapes_.dict(items) : shapes_.sequence(items);
    if (!record) return refuse("{}", record.error().message);
    if (!*record) return true;
    heap_.become(value.container(), **record);
    value = **record;
    return true;
  }

  bool complete_from(std::size_t from) {
    for (std::size_t i = from; i < stack_.size(); ++i) {
      leave_stack(stack_[i]);
      if (!complete(stack_[i])) return false;
    }
    return true;
  }

  bool add_items(ContainerId target, std::size_t from) {
    if (heap_.held() + stack_.size() - from > limits_.values)
      return refuse("more than {} values in containers, expected fewer", limits_.values);
    heap_.append(target, std::span(stack_).subspan(from));
    stack_.resize(from);
    if (heap_.depth(target) > limits_.depth)
      return refuse("containers nested deeper than {}, expected fewer", limits_.depth);
    return true;
  }

  // The container below `from`, which must be of that kind and open.
  bool find_target(std::size_t from, PickleContainer kind, ContainerId& target) {
    const char* const name = kind == PickleContainer::dict ? "dict" : "list";
    if (from <= floor()) return refuse("the stack is empty, expected a {}", name);
    const PickleValue value = heap_.resolved(stack_[from - 1]);
    if (value.is(Kind::record))
      return refuse("a {} is changed after it was complete, expected its end", name);
    if (!value.is(Kind::container) || heap_.kind(value.container()) != kind)
      return refuse("items are added to what is no {}, expected a {}", name, name);
    target = value.container();
    if (stack_.size() > from) leave_stack(value);
    return true;
  }

  bool append_from(std::size_t from) {
    ContainerId target;
    return find_target(from, PickleContainer::list, target) && complete_from(from) &&
           add_items(target, from);
  }

  bool set_items_from(std::size_t from) {
    ContainerId target;
    if (!find_target(from, PickleContainer::dict, target)) return false;
    return set_items(target, from);
  }

  bool set_items(ContainerId target, std::size_t from) {
    if ((stack_.size() - from) % 2 != 0) return refuse("a key without a value, expected both");
    for (std::size_t i = from; i < stack_.size(); i += 2)
      if (!stack_[i].is(Kind::text)) return refuse("a dict key is no text, expected a text");
    if (!complete_from(from)) return false;
    const bool is_whole = heap_.items(target).empty() && stack_.size() - from > 2;
    if (!is_whole) return add_items(target, from);
    const auto record = shapes_.dict(std::span(stack_).subspan(from));
    if (!record) return refuse("{}", record.error().message);
    if (!*record) return add_items(target, from);
    heap_.become(target, **record);
    stack_.resize(from);
    return true;
  }

  // A list, tuple or dict of what lies above `from`, in its place.
  bool make(PickleContainer kind, std::size_t from) {
    const ContainerId id = heap_.add(kind);
    if (kind == PickleContainer::dict) {
      if (!set_items(id, from)) return false;
    } else if (!complete_from(from) || !add_items(id, from)) {
      return false;
    }
    return push(PickleValue::of_container(id));
  }

  bool make_from_mark(PickleContainer kind) {
    std::size_t from = 0;
    return pop_mark(from) && make(kind, from);
  }

  bool make_tuple(std::size_t count) {
    return has(count) && make(PickleContainer::tuple, stack_.size() - count);
  }

  bool append() { return has(2) && append_from(stack_.size() - 1); }
  bool set_item() { return has(3) && set_items_from(stack_.size() - 2); }

  bool appends() {
    std::size_t from = 0;
    return pop_mark(from) && append_from(from);
  }

  bool set_many() {
    std::size_t from = 0;
    return pop_mark(from) && set_items_from(from);
  }

  bool pop() {
    if (!marks_.empty() && stack_.size() == floor()) {
      marks_.pop_back();
      return true;
    }
    if (!has(1)) return false;
    leave_stack(stack_.back());
    stack_.pop_back();
    return true;
  }

  bool pop_to_mark() {
    std::size_t from = 0;
    if (!pop_mark(from)) return false;
    for (std::size_t i = from; i < stack_.size(); ++i) leave_stack(stack_[i]);
    stack_.resize(from);
    return true;
  }

  bool stop() {
    if (stack_.size() != 1 || !marks_.empty())
      return refuse("ends with {} values, expected one", stack_.size());
    if (!complete(stack_.back())) return false;
    result_ = stack_.back();
    stopped_ = true;
    return true;
  }

  bool frame() {
    std::size_t length = 0;
    return read_length(8, length);
  }

  bool protocol_again() { return refuse("a second PROTO, expected it only at the beginning"); }

  bool step() {
    op_offset_ = stream_.offset();
    const std::string_view head = stream_.peek(1);
    if (head.empty()) return refuse("the file ends here, expected a whole pickle");
    stream_.skip(1);
    const auto byte = static_cast<std::uint8_t>(head[0]);
    switch (static_cast<PickleOp>(byte)) {
      case PickleOp::binget: return recall(1);
      case PickleOp::long_binget: return recall(4);
      case PickleOp::memoize: return remember(memo_.size());
      case PickleOp::mark: return mark();
      case PickleOp::setitems: return set_many();
      case PickleOp::appends: return appends();
      case PickleOp::empty_dict:
        return push(PickleValue::of_container(heap_.add(PickleContainer::dict)));
      case PickleOp::empty_list:
        return push(PickleValue::of_container(heap_.add(PickleContainer::list)));
      case PickleOp::short_binunicode: return read_text(1);
      case PickleOp::binunicode: return read_text(4);
      case PickleOp::binunicode8: return read_text(8);
      case PickleOp::binint: return read_integer(4, true);
      case PickleOp::binint1: return read_integer(1, false);
      case PickleOp::binint2: return read_integer(2, false);
      case PickleOp::long1: return read_long(1);
      case PickleOp::long4: return read_long(4);
      case PickleOp::binfloat: return read_real();
      case PickleOp::none: return push({});
      case PickleOp::newtrue: return push(PickleValue::of_boolean(true));
      case PickleOp::newfalse: return push(PickleValue::of_boolean(false));
      case PickleOp::binput: return remember_at(1);
      case PickleOp::long_binput: return remember_at(4);
      case PickleOp::append: return append();
      case PickleOp::setitem: return set_item();
      case PickleOp::empty_tuple: return make(PickleContainer::tuple, stack_.size());
      case PickleOp::tuple1: return make_tuple(1);
      case PickleOp::tuple2: return make_tuple(2);
      case PickleOp::tuple3: return make_tuple(3);
      case PickleOp::tuple: return make_from_mark(PickleContainer::tuple);
      case PickleOp::list: return make_from_mark(PickleContainer::list);
      case PickleOp::dict: return make_from_mark(PickleContainer::dict);
      case PickleOp::short_binbytes: return skip_bytes(1);
      case PickleOp::binbytes: return skip_bytes(4);
      case PickleOp::binbytes8:
      case PickleOp::bytearray8: return skip_bytes(8);
      case PickleOp::pop: return pop();
      case PickleOp::pop_mark: return pop_to_mark();
      case PickleOp::dup: return has(1) && push(stack_.back());
      case PickleOp::frame: return frame();
      case PickleOp::proto: return protocol_again();
      case PickleOp::stop: return stop();
    }
    if (const char* name = refused_opcode(byte))
      return refuse("opcode {} names or runs code, expected only data", name);
    return refuse("unknown opcode 0x{:02x}, expected a pickle of protocol 2 to 5", byte);
  }

  ByteStream& stream_;
  PickleHeap& heap_;
  PickleShapes& shapes_;
  const PickleLimits limits_;
  std::vector<PickleValue> stack_;
  std::size_t empty_ = 0;  ///< containers without content on the stack
  std::vector<std::size_t> marks_;
  std::vector<std::optional<PickleValue>> memo_;
  std::optional<Error> error_;
  PickleValue result_;
  Bytes op_offset_ = 0;
  bool stopped_ = false;
};

}  // namespace

Result<PickleValue> read_pickle(ByteStream& stream, PickleHeap& heap, PickleShapes& shapes,
                                const PickleLimits& limits) {
  return Machine(stream, heap, shapes, limits).run();
}

}  // namespace foregather::traces
