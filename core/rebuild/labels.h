// What an op is, and what the host was doing when it launched it.
#pragma once

#include <cstddef>
#include <optional>
#include <string_view>
#include <vector>

#include "core/rebuild/range_labels.h"
#include "core/rebuild/timeline.h"

namespace foregather::rebuild {

struct OpLabel {
  OpKind kind = OpKind::other;
  Phase phase = Phase::other;
  std::string_view scope;  ///< as RangeLabel has it, or as the recording knows it
};

/// Joins launches to the host ranges around them.
class Labels {
 public:
  /// `recording` must outlive this. Linear in ranges and calls, but for sorting.
  Labels(const run::Recording& recording, const Timeline& timeline);

  OpLabel of(const RecordedOp& op) const;
  /// What was said of a collective: on the kernel itself, else on the innermost range around its
  /// launch that describes one; absent: nothing.
  run::CollectiveRow collective(const RecordedOp& op) const;

 private:
  const run::Recording& recording_;
  // Of the timeline's ops, by name and kind of activity: a name is looked at once.
  std::size_t kind_row(std::size_t activity) const;
  OpKind kind_of(const RecordedOp& op) const;
  std::vector<std::optional<OpKind>> kinds_;
  std::vector<RangeLabel> labels_;  ///< by call of the timeline
};

/// Of a dtype as PyTorch names it ("BFloat16"); absent: unknown.
std::optional<Bytes> element_size(std::string_view dtype);

/// NCCL's message size: the whole gathered or unreduced buffer, the message otherwise; 0 where the
/// dtype is unknown.
Bytes message_bytes(const run::Recording& recording, const run::RecordedCollective& collective);

}  // namespace foregather::rebuild
