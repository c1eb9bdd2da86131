// Events of NCCL's profiler interface become rows.
#pragma once

#include <array>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "profiler/nccl_abi.h"
#include "profiler/raw_file.h"

namespace foregather::profiler {

class Recorder;

/// What a handle stands for while its event runs. Handles are numbers that name an event for good
/// (a place of the pool and how often it was used), so that a child may come long after its parent
/// stopped: a collective stops when it is enqueued, its channels and proxies report later. A
/// collective is complete when the last row with it as `parent` ends. At most kPlaces events run
/// at a time; more are dropped and counted. NCCL calls from threads of the program and its own.
class NcclEvents {
 public:
  static constexpr std::size_t kPlaces = 8192;

  /// What NCCL shall report.
  static int mask(bool with_steps);
  void add_communicator(std::uint64_t communicator, std::string_view name, int nodes, int ranks,
                        int rank);
  /// Null: dropped, or of no interest.
  void* start(std::uint64_t communicator, const nccl::Event& event, std::uint64_t type);
  void stop(void* handle);
  void record(void* handle, int state, const nccl::StateArguments* arguments);

 private:
  struct Place {
    std::uint32_t uses = 0;
    bool is_used = false;
    std::uint64_t type = 0;
    std::int64_t start = 0;
    std::array<Cell, 15> cells;
    std::size_t width = 0;
  };

  Place* take(std::int64_t& id);
  Place* find(void* handle);
  void give_back(void* handle);
  /// The id of one of NCCL's constant texts: negative, so that the writer's own go on from 1.
  Cell name(Recorder& recorder, const char* text);
  static Cell parent_of(const nccl::Event& event, std::uint64_t type, std::int64_t pid);

  std::mutex mutex_;
  std::vector<Place> places_;
  std::vector<std::uint32_t> free_;
  const Recorder* named_for_ = nullptr;
  std::vector<std::string> names_;
};

}  // namespace foregather::profiler
