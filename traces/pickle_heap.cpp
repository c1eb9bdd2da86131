#include "traces/pickle_heap.h"

#include <algorithm>

namespace foregather::traces {

PickleValue PickleValue::of_real(double value) {
  PickleValue out;
  out.kind = Kind::real;
  out.real = value;
  return out;
}

PickleValue PickleValue::of_text(StringId id) {
  PickleValue out;
  out.kind = Kind::text;
  out.row = id.row();
  return out;
}

PickleValue PickleValue::of_container(ContainerId id) {
  PickleValue out;
  out.kind = Kind::container;
  out.row = id.row();
  return out;
}

PickleValue PickleValue::of_record(std::uint8_t type, std::uint32_t row) {
  PickleValue out;
  out.kind = Kind::record;
  out.type = type;
  out.row = row;
  return out;
}

ContainerId PickleHeap::add(PickleContainer kind) {
  Node node;
  node.kind = kind;
  nodes_.push_back(node);
  return ContainerId(nodes_.size() - 1);
}

std::span<const PickleValue> PickleHeap::items(ContainerId id) const {
  const Node& node = nodes_[id.row()];
  if (node.is_record || node.slot == kEmpty) return {};
  return items_[node.slot];
}

void PickleHeap::append(ContainerId id, std::span<const PickleValue> items) {
  Node& node = nodes_[id.row()];
  if (node.slot == kEmpty && spare_.empty()) {
    node.slot = static_cast<std::uint32_t>(items_.size());
    items_.emplace_back();
  } else if (node.slot == kEmpty) {
    node.slot = spare_.back();
    spare_.pop_back();
  }
  std::vector<PickleValue>& held = items_[node.slot];
  held.insert(held.end(), items.begin(), items.end());
  held_ += items.size();
  for (const PickleValue& item : items) {
    if (!item.is(PickleValue::Kind::container)) continue;
    const std::uint32_t deeper = depth(item.container()) + 1;
    node.depth = std::max(node.depth, static_cast<std::uint16_t>(std::min(deeper, 0xffffU)));
  }
}

void PickleHeap::become(ContainerId id, PickleValue record) {
  Node& node = nodes_[id.row()];
  if (node.slot != kEmpty) {
    held_ -= items_[node.slot].size();
    items_[node.slot].clear();
    spare_.push_back(node.slot);
  }
  node.is_record = true;
  node.type = record.type;
  node.slot = record.row;
}

PickleValue PickleHeap::resolved(PickleValue value) const {
  if (!value.is(PickleValue::Kind::container)) return value;
  const Node& node = nodes_[value.row];
  return node.is_record ? PickleValue::of_record(node.type, node.slot) : value;
}

}  // namespace foregather::traces
