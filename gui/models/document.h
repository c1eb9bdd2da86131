// Everything derived from what is open, made once.
#pragma once

#include <memory>
#include <vector>

#include "gui/models/flows.h"
#include "gui/models/lanes.h"
#include "gui/models/memory.h"
#include "gui/models/residuals.h"
#include "gui/models/totals.h"

namespace foregather::gui {

/// Never changed once it is made, so that any thread may make it and views share it. Its parts
/// refer to each other: it is not copied.
class Document {
 public:
  /// Of these ranks alone, if any are named. Errors: as of Session::open() and keep_ranks().
  static Result<std::shared_ptr<const Document>> open(std::vector<OpenRun> runs,
                                                      const std::vector<std::uint32_t>& ranks = {});
  Document(const Document&) = delete;
  Document& operator=(const Document&) = delete;

  const Session session;
  const std::vector<Lane> lanes;
  const std::vector<PairMemory> memory;  ///< by pair
  const Flows flows;
  const Residuals residuals;        ///< as they come: copy to sort or filter
  const std::vector<OpKind> kinds;  ///< of all ops, ascending

  bool has_memory() const;
  /// The first op of the other side in the span's group; absent where it met nothing.
  std::optional<Span> counterpart(const Span& span) const;
  /// The lane and track that show a span; absent for a call of a thread without a lane.
  struct Place {
    std::size_t lane = 0, side = 0, track = 0, span = 0;
  };
  std::optional<Place> place_of(const Span& span) const;

 private:
  explicit Document(Session&& opened);
};

}  // namespace foregather::gui
