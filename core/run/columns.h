// Rows stored by column: what scans one field of a million ops reads nothing else.
#pragma once

#include <cstddef>
#include <vector>

#include "core/run/rare_column.h"
#include "core/run/rows.h"

namespace foregather::run {

/// OpRecord by column. Ops of one step are consecutive.
struct OpColumns {
  std::vector<StepRow> step;
  std::vector<StreamRow> stream;
  std::vector<std::uint16_t> micro_batch;
  std::vector<std::uint32_t> ordinal;
  std::vector<OpKind> kind;
  std::vector<Role> role;
  std::vector<Phase> phase;
  std::vector<BoundReason> reason;
  std::vector<StringId> scope, unit;
  std::vector<CommunicatorRow> communicator;
  std::vector<std::uint32_t> sequence;
  std::vector<Ns> issued, start, transfer, end, alone;
  RareColumn<HostCallRow> launch;
  std::vector<OpRow> bound_by;
  std::vector<std::uint8_t> bound_by_previous_step;
  std::vector<StringId> source;
  std::vector<Bytes> bytes, wire_bytes;
  std::vector<std::int64_t> flops;

  std::size_t size() const { return step.size(); }
  void reserve(std::size_t rows);
  void append(const OpRecord& record);
  /// The record of a row below size().
  OpRecord at(OpRow row) const;
};

}  // namespace foregather::run
