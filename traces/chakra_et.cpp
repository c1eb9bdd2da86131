#include <bit>

#include "core/base/text.h"
#include "traces/chakra_builder.h"
#include "traces/protobuf.h"

namespace foregather::traces {
namespace {

// Numbers of fields, from et_def.proto.
enum MetadataField : std::uint32_t { kVersion = 1, kMetadataAttribute = 2 };
enum NodeField : std::uint32_t {
  kId = 1,
  kName = 2,
  kType = 3,
  kControlDeps = 4,
  kDataDeps = 5,
  kStart = 6,
  kDuration = 7,
  kInputs = 8,
  kOutputs = 9,
  kAttribute = 10,
};
enum AttributeField : std::uint32_t {
  kAttributeName = 1,
  kDocumentation = 2,
  kDouble = 3,
  kFloat = 5,
  kInt32 = 7,
  kInt64 = 9,
  kSint32 = 15,
  kSint64 = 17,
  kSfixed32 = 23,
  kSfixed64 = 25,
  kString = 29,
  kBytes = 31,
  kLastAttributeField = 32,
};
enum IoField : std::uint32_t { kValues = 1 };

struct Attribute {
  std::string_view name;
  Scalar value;  ///< neither a number nor a text: a fraction, or a list
  std::optional<double> real;
  bool is_signed = false;

  std::string printed() const {
    if (value.text) return std::string(*value.text);
    if (real) return fmt::to_string(*real);
    if (!value.number) return {};
    return is_signed ? fmt::to_string(static_cast<std::int64_t>(*value.number))
                     : fmt::to_string(*value.number);
  }
};

std::uint64_t unzigzag(std::uint64_t value) { return value >> 1U ^ (~(value & 1U) + 1); }

void read_value(const WireFields& fields, Attribute& read) {
  const std::uint64_t number = fields.number();
  read.value = {};
  read.real.reset();
  read.is_signed = false;
  switch (fields.field()) {
    case kDouble: read.real = std::bit_cast<double>(number); break;
    case kFloat: read.real = std::bit_cast<float>(static_cast<std::uint32_t>(number)); break;
    case kSint32:
    case kSint64: read.value.number = unzigzag(number); break;
    case kSfixed32:
      read.value.number = static_cast<std::uint64_t>(
          std::int64_t{static_cast<std::int32_t>(static_cast<std::uint32_t>(number))});
      break;
    case kString:
    case kBytes: read.value.text = fields.bytes(); break;
    default:
      if (fields.type() != WireType::bytes) read.value.number = number;
  }
  if (read.real) read.value.number = whole_number(*read.real);
  if (read.value.text) read.value.number = whole_number(*read.value.text);
  for (const std::uint32_t field : {kInt32, kInt64, kSint32, kSint64, kSfixed32, kSfixed64})
    read.is_signed |= fields.field() == field;
}

class Decoder {
 public:
  explicit Decoder(const std::string& name) : builder_(name) {}

  Status metadata(std::string_view message) {
    ChakraTrace& trace = builder_.trace();
    WireFields fields(message);
    Attribute read;
    while (fields.next()) {
      if (fields.field() == kVersion && fields.type() == WireType::bytes) {
        trace.version = fields.bytes();
      } else if (fields.field() == kMetadataAttribute && fields.type() == WireType::bytes) {
        if (attribute(fields.bytes(), read))
          trace.attributes.emplace_back(read.name, read.printed());
      } else {
        ++trace.unknown_fields;
      }
    }
    if (fields.is_damaged())
      return fail_at(trace.source, "byte 0: no Chakra metadata, which every trace begins with");
    return {};
  }

  void node(std::string_view message, Bytes offset) {
    node_.clear();
    WireFields fields(message);
    bool is_good = true;
    while (is_good && fields.next()) is_good = field(fields);
    if (!is_good || fields.is_damaged()) return builder_.drop("damaged_node", "byte", offset);
    builder_.add(node_, "byte", offset);
  }

  ChakraBuilder& builder() { return builder_; }

 private:
  // False: damaged.
  bool field(const WireFields& fields) {
    const bool is_bytes = fields.type() == WireType::bytes;
    switch (fields.field()) {
      case kId: node_.id = fields.number(); return !is_bytes;
      case kName: node_.name = fields.bytes(); return is_bytes;
      case kType: node_.type = fields.number(); return !is_bytes;
      case kControlDeps: return numbers(fields, node_.control_deps);
      case kDataDeps: return numbers(fields, node_.deps);
      case kDuration: node_.duration_us = fields.number(); return !is_bytes;
      case kInputs: return inputs(fields.bytes());
      case kAttribute: return is_bytes && node_attribute(fields.bytes());
      case kStart:
      case kOutputs: return true;
      default: ++builder_.trace().unknown_fields; return true;
    }
  }

  // Packed or one by one: a reader must take both.
  static bool numbers(const WireFields& fields, std::vector<std::uint64_t>& ids) {
    if (fields.type() != WireType::bytes) {
      ids.push_back(fields.number());
      return true;
    }
    std::string_view rest = fields.bytes();
    std::uint64_t id = 0;
    while (!rest.empty()) {
      if (!take_varint(rest, id)) return false;
      ids.push_back(id);
    }
    return true;
  }

  // Only metadata nodes have inputs that matter, and the type may come behind them.
  bool inputs(std::string_view message) {
    if (!node_.name.starts_with("## process_group")) return true;
    WireFields fields(message);
    while (fields.next())
      if (fields.field() == kValues) node_.values = fields.bytes();
    return !fields.is_damaged();
  }

  bool attribute(std::string_view message, Attribute& read) {
    read = {};
    read.value.is_absent = true;
    WireFields fields(message);
    while (fields.next()) {
      const std::uint32_t field = fields.field();
      if (field == kAttributeName) {
        read.name = fields.bytes();
      } else if (field > kLastAttributeField) {
        ++builder_.trace().unknown_fields;
      } else if (field != kDocumentation) {
        read_value(fields, read);
      }
    }
    return !fields.is_damaged();
  }

  bool node_attribute(std::string_view message) {
    Attribute read;
    return attribute(message, read) && node_.set(read.name, read.value);
  }

  ChakraBuilder builder_;
  ChakraNode node_;
};

// Are the fields of `message`, of which perhaps only the beginning is there, bytes up to `last`, or
// numbers where `numbers` has a bit? A newer schema's follow.
bool may_be(std::string_view message, bool is_whole, std::uint32_t last, std::uint32_t numbers) {
  WireFields fields(message);
  bool is_first = true;
  while (fields.next()) {
    if (fields.field() > last && is_first) return false;
    is_first = false;
    if (fields.field() > last) continue;
    const bool may_be_number = (numbers >> fields.field() & 1U) != 0;
    if (fields.type() != WireType::bytes && !(may_be_number && fields.type() == WireType::varint))
      return false;
  }
  return !fields.is_damaged() || !is_whole;
}

}  // namespace

bool is_chakra_et(std::string_view head) {
  constexpr std::uint32_t kNumbers = 1U << kId | 1U << kType | 1U << kControlDeps |
                                     1U << kDataDeps | 1U << kStart | 1U << kDuration;
  for (const bool is_metadata : {true, false}) {
    std::uint64_t length = 0;
    if (!take_varint(head, length)) return false;
    const bool is_whole = length <= head.size();
    const std::string_view message = head.substr(0, static_cast<std::size_t>(length));
    head.remove_prefix(message.size());
    if (is_metadata && !may_be(message, is_whole, kMetadataAttribute, 0)) return false;
    if (is_metadata && (!is_whole || head.empty())) return false;
    if (!is_metadata && (length == 0 || !may_be(message, is_whole, kAttribute, kNumbers)))
      return false;
  }
  return true;
}

Result<ChakraTrace> read_chakra_et(TextSource& source, const std::string& name) {
  WireMessages messages(source, name);
  Decoder decoder(name);
  bool is_metadata = true;
  while (!decoder.builder().is_full()) {
    const auto message = messages.next();
    if (!message) return tl::unexpected(message.error());
    if (!*message) break;
    if (is_metadata) {
      if (const Status read = decoder.metadata(**message); !read)
        return tl::unexpected(read.error());
    } else {
      decoder.node(**message, messages.offset());
    }
    is_metadata = false;
  }
  decoder.builder().trace().bytes = messages.bytes();
  return decoder.builder().finish();
}

}  // namespace foregather::traces
