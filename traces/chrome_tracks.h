// Where the slices of a run lie in a Chrome trace.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/run/run.h"
#include "traces/chrome_events.h"

namespace foregather::traces {

/// A process a rank class (of a recording with several devices, one a class and device); in it a
/// track of the steps, one of each host thread and one of each stream. Slices of one track never
/// overlap: what would goes to a further track of the same name with a number, "7 (2)".
class ChromeTracks {
 public:
  explicit ChromeTracks(run::RunView run);

  struct Process {
    run::ClassRow rank_class;
    std::uint32_t device = 0;
    std::string name;
  };
  struct Thread {
    ChromeTrack track;
    std::string name;
  };
  const std::vector<Process>& processes() const { return processes_; }  ///< numbered from 1
  const std::vector<Thread>& threads() const { return threads_; }       ///< in order of display

  ChromeTrack op(run::OpRow row) const;
  ChromeTrack step(run::StepRow row) const { return steps_[row.row()]; }
  /// Of the host's part of a step that has one, see host_times().
  ChromeTrack host_step(run::StepRow row) const { return host_steps_[row.row()]; }
  /// Of what a class has besides: its first track.
  ChromeTrack first(run::ClassRow row) const { return firsts_[row.row()]; }
  /// Of a predicted run, whose threads are not told apart.
  ChromeTrack host(run::ClassRow row) const { return hosts_[row.row()]; }
  /// Of a recorded call.
  ChromeTrack call(run::HostCallRow row) const { return calls_[row.row()]; }
  /// The number of the stream on its device: a recorded one's own, else by order of the class.
  std::uint32_t stream_number(run::StreamRow row) const { return streams_[row.row()].number; }
  std::uint32_t device(run::StreamRow row) const {
    return processes_[streams_[row.row()].track.process - 1].device;
  }
  /// From the first launch of a step to just behind its last one; an op without one counts itself,
  /// as readers do that tell by launches what belongs to a step. Absent: the step has no ops.
  struct HostStep {
    Ns begin = 0, end = 0;
  };
  const std::optional<HostStep>& host_times(run::StepRow row) const {
    return host_times_[row.row()];
  }

 private:
  struct Stream {
    ChromeTrack track;  ///< its first one
    std::uint32_t number = 0;
    std::string name;
  };

  void add_processes();
  void add_host_times();
  void add_threads();
  void add_step_tracks(run::ClassRow rank_class, std::uint32_t process);
  void add_stream_tracks();
  ChromeTrack add_thread(std::uint32_t process, std::string name);

  run::RunView run_;
  std::vector<Process> processes_;
  std::vector<Thread> threads_;
  std::vector<std::uint32_t> lanes_;  // by op
  std::vector<Stream> streams_;
  std::vector<ChromeTrack> steps_, host_steps_, firsts_, hosts_, calls_;
  std::vector<std::optional<HostStep>> host_times_;
  std::vector<std::uint32_t> threads_of_;  // by process: numbers given out
};

/// When an op was launched: of a predicted one when the host had issued it, of a recorded one when
/// the call began; absent: not recorded.
std::optional<Ns> launch_time(run::RunView run, run::OpRow row);

}  // namespace foregather::traces
