#include <limits>

#include "core/ir/dump_reader.h"

namespace foregather {
namespace {

using namespace std::string_view_literals;

constexpr std::int64_t kMostCount = std::numeric_limits<std::uint32_t>::max();

}  // namespace

void DumpReader::string() {
  const std::size_t next = graph_.strings.size();
  if (!in_.more()) return in_.fail("expected a quoted text");
  graph_.strings.intern(in_.quoted());
  if (graph_.strings.size() == next) in_.fail("this text is a row already, expected a new one");
}

// Runs "0-3,8" of ranks. Bounded, as few bytes can name many.
Range DumpReader::ranks() {
  constexpr std::size_t kMostListed = 1U << 24;
  std::vector<std::uint32_t>& pool = graph_.rank_lists;
  Range range{static_cast<std::uint32_t>(pool.size()), 0};
  do {
    const std::int64_t first = in_.number(0, kMostRanks);
    const std::int64_t last = in_.take('-') ? in_.number(first, kMostRanks) : first;
    if (pool.size() + static_cast<std::size_t>(last - first) >= kMostListed)
      in_.fail("more than {} ranks are listed in all", kMostListed);
    for (std::int64_t rank = first; rank <= last && !in_.failed(); ++rank)
      pool.push_back(static_cast<std::uint32_t>(rank));
  } while (!in_.failed() && in_.take(','));
  range.count = static_cast<std::uint32_t>(pool.size()) - range.first;
  return range;
}

void DumpReader::group() {
  static constexpr std::array kKeys{"ranks"sv, "instances"sv, "nodes"sv};
  Group& row = graph_.groups.emplace_back();
  row.name = name_field();
  std::uint32_t seen = 0;
  while (in_.more()) {
    switch (field(kKeys, seen)) {
      case 0: row.ranks = ranks(); break;
      case 1: row.instances = static_cast<std::uint32_t>(in_.number(1, kMostRanks)); break;
      case 2: row.nodes = static_cast<std::uint32_t>(in_.number(1, kMostCount)); break;
      default: break;
    }
  }
}

void DumpReader::communicator() {
  Communicator& row = graph_.communicators.emplace_back();
  row.name = name_field();
  if (in_.more()) only_id(row.group, 'g', "group");
}

void DumpReader::unit() {
  static constexpr std::array kKeys{"parameters"sv, "padded"sv,  "stored"sv,
                                    "gathered"sv,   "reduced"sv, "reshard"sv};
  Unit& row = graph_.units.emplace_back();
  std::uint32_t seen = 0;
  while (in_.more()) {
    const char letter = in_.peek_id();
    if (letter == 's') {
      only_id(row.scope, 's', "scope");
      continue;
    }
    if (letter == 'g') {
      only_id(row.group, 'g', "group");
      continue;
    }
    switch (field(kKeys, seen)) {
      case 0: row.parameters = in_.number(0, kMostWork); break;
      case 1: row.padded_elements = in_.number(0, kMostWork); break;
      case 2: row.stored = choice("dtype", DType::boolean); break;
      case 3: row.gathered = choice("dtype", DType::boolean); break;
      case 4: row.reduced = choice("dtype", DType::boolean); break;
      case 5: row.reshard = choice("time to reshard", Reshard::after_backward); break;
      default: break;
    }
  }
}

void DumpReader::cost() {
  static constexpr std::array kKeys{"flops"sv,   "read"sv,        "written"sv, "m"sv,
                                    "n"sv,       "k"sv,           "batch"sv,   "message"sv,
                                    "fixed"sv,   "launch_lead"sv, "lead"sv,    "late"sv,
                                    "kernels"sv, "host_ops"sv,    "usual"sv};
  constexpr std::size_t kLaunchLead = 9;
  static_assert(kKeys[kLaunchLead] == "launch_lead"sv);
  Cost& row = graph_.costs.emplace_back();
  row.kind = word_choice("kind of op", kLastOpKind);
  if (in_.more()) row.dtype = choice("dtype", DType::boolean);
  const std::array numbers{
      &row.flops,      &row.bytes_read,  &row.bytes_written, &row.m,
      &row.n,          &row.k,           &row.batch,         &row.message_bytes,
      &row.fixed_time, &row.launch_lead, &row.lead,          &row.lateness};
  std::uint32_t seen = 0;
  while (in_.more()) {
    if (in_.peek_id() == 'g') {
      only_id(row.group, 'g', "group");
      continue;
    }
    const std::size_t key = field(kKeys, seen);
    if (key < numbers.size()) {
      *numbers[key] = in_.number(0, kMostWork);
      row.is_fixed |= numbers[key] == &row.fixed_time;
    } else if (key == numbers.size()) {
      row.kernels = static_cast<std::uint16_t>(in_.number(0, 65'535));
    } else if (key == numbers.size() + 1) {
      row.host_ops = static_cast<std::uint16_t>(in_.number(0, 65'535));
    } else if (key == numbers.size() + 2) {
      row.usual_time = in_.number(0, kMostTime);
    }
  }
  if ((seen & (1U << kLaunchLead)) == 0) row.launch_lead = row.lead;
}

void DumpReader::storage() {
  Storage& row = graph_.storages.emplace_back();
  row.bytes = word_number(kMostBytes);
  row.name = name_field();
  while (in_.more()) {
    const char letter = in_.peek_id();
    if (letter == 's') {
      only_id(row.scope, 's', "scope");
    } else if (letter == 'u') {
      only_id(row.unit, 'u', "unit");
    } else {
      row.cause = choice("cause", Cause::cache);
      break;
    }
  }
  if (!in_.more()) return;
  row.on_host = in_.symbol() == "host";
  if (!row.on_host) in_.fail("expected 'host' or the end of the line");
}

void DumpReader::tensor() {
  Tensor& row = graph_.tensors.emplace_back();
  only_id(row.storage, 'b', "storage");
  row.dtype = word_choice("dtype", DType::boolean);
  in_.expect('[');
  row.shape.first = static_cast<std::uint32_t>(graph_.dims.size());
  if (!in_.take(']')) {
    do graph_.dims.push_back(in_.number(0, kMostBytes));
    while (!in_.failed() && in_.take(','));
    in_.expect(']');
  }
  row.shape.count = static_cast<std::uint32_t>(graph_.dims.size()) - row.shape.first;
  if (!in_.more()) return;
  in_.expect('+');
  row.offset = in_.number(0, kMostBytes);
}

AccessedTensor DumpReader::access(Access mode) {
  AccessedTensor part;
  part.mode = mode;
  part.tensor = TensorId(in_.id('t', "tensor"));
  if (part.tensor.row() >= graph_.tensors.size()) {
    in_.fail("tensor t{} is not defined above", part.tensor.row());
  } else if (in_.take('+')) {
    part.offset = in_.number(0, kMostBytes);
    in_.expect(':');
    part.bytes = in_.number(0, kMostBytes);
  } else if (const auto bytes = bytes_of(graph_, graph_.at(part.tensor))) {
    part.bytes = *bytes;
  } else {
    in_.fail("tensor t{} has more than 2^63 bytes", part.tensor.row());
  }
  return part;
}

Range DumpReader::op_list() {
  Range range{static_cast<std::uint32_t>(graph_.op_lists.size()), 0};
  do graph_.op_lists.emplace_back(in_.id('o', "op"));
  while (!in_.failed() && in_.take(','));
  range.count = static_cast<std::uint32_t>(graph_.op_lists.size()) - range.first;
  return range;
}

void DumpReader::op() {
  static constexpr std::array kKeys{"read"sv,    "write"sv,       "accumulate"sv, "deps"sv,
                                    "origins"sv, "micro_batch"sv, "ordinal"sv,    "sequence"sv};
  Op row;
  row.kind = word_choice("kind of op", kLastOpKind);
  row.role = word_choice("role", Role::other);
  row.phase = word_choice("phase", Phase::other);
  row.accesses.first = static_cast<std::uint32_t>(graph_.accesses.size());
  row.deps.first = row.origins.first = static_cast<std::uint32_t>(graph_.op_lists.size());
  std::uint32_t seen = 0;
  while (in_.more()) {
    switch (in_.peek_id()) {
      case 's': only_id(row.scope, 's', "scope"); continue;
      case 'u': only_id(row.unit, 'u', "unit"); continue;
      case 'q': only_id(row.stream, 'q', "stream"); continue;
      case 'c': only_id(row.communicator, 'c', "communicator"); continue;
      case 'k': only_id(row.cost, 'k', "cost"); continue;
      default: break;
    }
    switch (const std::size_t key = field(kKeys, seen)) {
      case 0:
      case 1:
      case 2:
        seen &= ~7U;  // accesses repeat
        graph_.accesses.push_back(access(static_cast<Access>(key)));
        break;
      case 3:
        row.deps = op_list();
        if (row.origins.count == 0) row.origins.first = row.deps.end();
        break;
      case 4: row.origins = op_list(); break;
      case 5: row.micro_batch = static_cast<std::uint16_t>(in_.number(0, 0xffff)); break;
      case 6: row.ordinal = static_cast<std::uint32_t>(in_.number(0, 0xffffffff)); break;
      case 7: row.sequence = static_cast<std::uint32_t>(in_.number(0, kMostCount)); break;
      default: break;
    }
  }
  row.accesses.count = static_cast<std::uint32_t>(graph_.accesses.size()) - row.accesses.first;
  graph_.ops.push_back(row);
}

void DumpReader::rank_class() {
  static constexpr std::array kKeys{"ranks"sv, "hardware"sv, "compute_scale_ppm"sv, "delay"sv};
  RankClass& row = graph_.classes.emplace_back();
  row.name = name_field();
  if (in_.more() && in_.peek_id() == 'p') only_id(row.program, 'p', "program");
  std::uint32_t seen = 0;
  while (in_.more()) {
    switch (field(kKeys, seen)) {
      case 0: row.ranks = ranks(); break;
      case 1: row.hardware = static_cast<std::uint32_t>(in_.number(0, kMostHardware)); break;
      case 2:
        row.compute_scale_ppm =
            static_cast<std::int32_t>(in_.number(0, std::numeric_limits<std::int32_t>::max()));
        break;
      case 3: row.start_delay = in_.number(0, kMostTime); break;
      default: break;
    }
  }
}

}  // namespace foregather
