// What an op is, and what the host was doing when it launched it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/ir/kinds.h"
#include "core/rebuild/timeline.h"

namespace foregather::rebuild {

struct OpLabel {
  OpKind kind = OpKind::other;
  Phase phase = Phase::other;
  /// Innermost annotation around the launch that is no profiler step, else the outermost operator.
  std::string_view scope;
};

/// Joins launches to the host ranges around them.
class Labels {
 public:
  /// Both must outlive this. Linear in ranges and calls, but for sorting.
  Labels(const run::Recording& recording, const Timeline& timeline);

  OpLabel of(const RecordedOp& op) const;
  /// What was said of a collective: on the kernel itself, else on the innermost range around its
  /// launch that describes one; absent: nothing.
  run::CollectiveRow collective(const RecordedOp& op) const;

 private:
  struct Label {
    OpLabel label;
    run::CollectiveRow collective;
  };
  const run::Recording& recording_;
  // Of the timeline's ops, by name and kind of activity: a name is looked at once.
  std::size_t kind_row(std::size_t activity) const;
  std::vector<std::optional<OpKind>> kinds_;
  std::vector<Label> labels_;  ///< by call of the timeline
};

/// NCCL's message size: the whole gathered or unreduced buffer, the message otherwise; 0 where the
/// dtype is unknown.
Bytes message_bytes(const run::Recording& recording, const run::RecordedCollective& collective);

}  // namespace foregather::rebuild
