// The objects of a pickle: values, and the containers that they refer to.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "core/base/strings.h"

namespace foregather::traces {

using ContainerId = Id<struct PickleContainerTag>;

/// One value: a scalar, or a reference. Copying it never copies a container, so an object that a
/// pickle refers to a thousand times exists once.
struct PickleValue {
  enum class Kind : std::uint8_t {
    none,
    boolean,           ///< integer: 0 or 1
    integer,           ///< of 64 bits, signed
    unsigned_integer,  ///< 2^63 and more; `integer` holds its bits
    big,               ///< an integer beyond 64 bits: its value is lost
    real,
    text,
    bytes,      ///< content skipped
    container,  ///< list, dict or tuple
    record,     ///< a container that PickleShapes has read: `type` says what, `row` where
  };
  Kind kind = Kind::none;
  std::uint8_t type = 0;
  std::uint32_t row = 0;  ///< of the text, the container or the record
  union {
    std::int64_t integer = 0;
    double real;
  };

  StringId text() const { return StringId(row); }
  ContainerId container() const { return ContainerId(row); }

  static PickleValue of_integer(std::int64_t value) { return with(Kind::integer, value); }
  static PickleValue of_boolean(bool value) { return with(Kind::boolean, value ? 1 : 0); }
  static PickleValue of_real(double value);
  static PickleValue of_text(StringId id);
  static PickleValue of_container(ContainerId id);
  static PickleValue of_record(std::uint8_t type, std::uint32_t row);
  static PickleValue with(Kind kind, std::int64_t integer) {
    PickleValue value;
    value.kind = kind;
    value.integer = integer;
    return value;
  }

  bool is(Kind wanted) const { return kind == wanted; }
  bool is_record(std::uint8_t wanted) const { return kind == Kind::record && type == wanted; }
};

enum class PickleContainer : std::uint8_t { list, dict, tuple };

/// All containers of one pickle. A dict holds keys and values in turn. Freed at once, without
/// recursion. Twelve bytes for a container that has become a record.
class PickleHeap {
 public:
  PickleHeap() = default;

  StringTable strings;

  ContainerId add(PickleContainer kind);
  PickleContainer kind(ContainerId id) const { return nodes_[id.row()].kind; }
  std::span<const PickleValue> items(ContainerId id) const;
  /// Nothing was put into it yet, and it is no record.
  bool is_empty(ContainerId id) const {
    const Node& node = nodes_[id.row()];
    return !node.is_record && node.slot == kEmpty;
  }
  /// Containers inside containers, the innermost counts 1.
  std::uint32_t depth(ContainerId id) const { return nodes_[id.row()].depth; }
  void append(ContainerId id, std::span<const PickleValue> items);
  /// The content is dropped; `record` stands for the container from now on.
  void become(ContainerId id, PickleValue record);
  /// The value itself, or the record that its container has become.
  PickleValue resolved(PickleValue value) const;
  /// Values in containers, in all.
  std::size_t held() const { return held_; }
  /// False the first time: a container is offered to PickleShapes once.
  bool offered(ContainerId id) { return std::exchange(nodes_[id.row()].offered, true); }

 private:
  static constexpr std::uint32_t kEmpty = std::numeric_limits<std::uint32_t>::max();
  struct Node {
    std::uint32_t slot = kEmpty;  ///< of items_, or the row of the record
    std::uint16_t depth = 1;
    PickleContainer kind = PickleContainer::list;
    bool is_record = false;
    bool offered = false;
    std::uint8_t type = 0;
  };
  std::vector<Node> nodes_;
  std::vector<std::vector<PickleValue>> items_;
  std::vector<std::uint32_t> spare_;
  std::size_t held_ = 0;
};

}  // namespace foregather::traces
