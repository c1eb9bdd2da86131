// Where the bytes lie: addresses over time.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/models/session.h"

namespace foregather::gui {

/// Does a class of a run's ranks say where its memory lies?
bool has_addresses(run::RunView run, run::ClassRow rank_class);

/// The memory of one rank of one run as a plane: times of the axis to the right, addresses upwards.
/// Addresses that the allocator never held take no room: what it held is laid end to end in bands,
/// with a gap between those that do not touch. Heights are bytes from the bottom. What a step has
/// at its end it has until the next one begins, or until the device is done with the step.
class SegmentMap {
 public:
  /// n log n in the run's segments and allocations.
  SegmentMap(const Session& session, std::size_t side, const RankStep& rank);

  /// Neighbouring addresses that were held at some time.
  struct Band {
    std::uint64_t address = 0;
    Bytes bytes = 0;
    Bytes at = 0;  ///< height of its lowest byte
    std::string name;
  };
  /// Held by the allocator for a time.
  struct Held {
    TimeRange time;
    Bytes at = 0, bytes = 0;
  };
  /// Lent to an allocation. Those of a Run's bindings that have an address, in order of height.
  struct Block {
    TimeRange time;
    Bytes at = 0, bytes = 0;
    std::uint32_t binding = 0;  ///< row of Run::bindings
  };

  bool empty() const { return blocks_.empty() && held_.empty(); }
  std::size_t side() const { return side_; }
  std::uint32_t rank() const { return rank_; }
  const std::vector<Band>& bands() const { return bands_; }
  const std::vector<Held>& held() const { return held_; }
  const std::vector<Block>& blocks() const { return blocks_; }
  /// Is that of any block another one than unknown?
  bool knows_causes() const { return knows_causes_; }
  Bytes height() const { return height_; }
  TimeRange extent() const { return extent_; }

  /// The block at a point of the plane, else none.
  std::optional<std::size_t> block_at(Ns time, Bytes height) const;
  /// What is known of a block: names and values.
  std::vector<std::pair<std::string, std::string>> details(const Session& session,
                                                           std::size_t block) const;

 private:
  void add_bands(run::RunView run, const Session& session);
  void add_held(run::RunView run, const Session& session);
  void add_blocks(run::RunView run, const Session& session);
  std::vector<Ns> ends_of_steps(run::RunView run, const Session& session) const;
  bool is_own(run::RunView run, const Session& session, run::StepRow step) const;
  std::optional<Bytes> height_of(std::uint64_t address) const;
  void extend(TimeRange time);

  std::size_t side_;
  run::ClassRow rank_class_;
  std::uint32_t rank_;
  std::vector<Band> bands_;
  std::vector<Held> held_;
  std::vector<Block> blocks_;
  std::vector<Ns>
      step_end_;  ///< by step of the run, on its clock: when what is held at its end goes
  Bytes height_ = 0, tallest_ = 0;  ///< of all; of the tallest block
  bool knows_causes_ = false;
  TimeRange extent_{0, 0};
};

}  // namespace foregather::gui
