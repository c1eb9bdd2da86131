#include "traces/chrome_tracks.h"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <set>

#include "core/base/lanes.h"

namespace foregather::traces {
namespace {

std::optional<std::uint32_t> number_of(std::string_view text) {
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "DEVICE/STREAM", as recordings name their streams.
struct RecordedStream {
  std::uint32_t device = 0, stream = 0;
};
std::optional<RecordedStream> recorded_stream(std::string_view name) {
  const std::size_t slash = name.find('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto device = number_of(name.substr(0, slash));
  const auto stream = number_of(name.substr(slash + 1));
  if (!device || !stream) return std::nullopt;
  return RecordedStream{*device, *stream};
}

std::string numbered(const std::string& name, std::uint32_t lane) {
  return lane == 0 ? name : fmt::format("{} ({})", name, lane + 1);
}

}  // namespace

std::optional<Ns> launch_time(run::RunView run, run::OpRow row) {
  if (run.about.kind == run::RunKind::predicted) return run.ops.issued[row.row()];
  const run::HostCallRow call = run.ops.launch[row.row()];
  return call ? std::optional(run.calls[call.row()].start) : std::nullopt;
}

ChromeTracks::ChromeTracks(run::RunView run) : run_(run) {
  streams_.resize(run.streams.size());
  steps_.resize(run.steps.size());
  host_steps_.resize(run.steps.size());
  firsts_.resize(run.classes.size());
  hosts_.resize(run.classes.size());
  calls_.resize(run.calls.size());
  add_processes();
  threads_of_.resize(processes_.size() + 1);
  add_host_times();
  for (std::uint32_t p = 0; p < processes_.size(); ++p)
    if (p == 0 || processes_[p - 1].rank_class != processes_[p].rank_class)
      add_step_tracks(processes_[p].rank_class, p + 1);
  add_threads();
  add_stream_tracks();
  std::stable_sort(threads_.begin(), threads_.end(),
                   [](const Thread& a, const Thread& b) { return a.track < b.track; });
}

ChromeTrack ChromeTracks::op(run::OpRow row) const {
  ChromeTrack track = streams_[run_.ops.stream[row.row()].row()].track;
  track.thread += lanes_[row.row()];
  return track;
}

void ChromeTracks::add_processes() {
  std::vector<std::vector<std::uint32_t>> streams_of(run_.classes.size());
  for (std::uint32_t s = 0; s < run_.streams.size(); ++s)
    streams_of[run_.streams[s].rank_class.row()].push_back(s);
  for (std::uint32_t c = 0; c < run_.classes.size(); ++c) {
    std::vector<std::optional<RecordedStream>> recorded;
    for (const std::uint32_t s : streams_of[c])
      recorded.push_back(recorded_stream(run_.text_of(run_.streams[s].name)));
    const bool are_recorded =
        std::all_of(recorded.begin(), recorded.end(), [](const auto& s) { return s.has_value(); });
    std::set<std::uint32_t> devices;
    for (const auto& stream : recorded) devices.insert(are_recorded ? stream->device : 0);
    if (devices.empty()) devices.insert(0);

    const run::ClassInfo& info = run_.classes[c];
    std::string name = fmt::format("{}: {}", run::name(run_.about.kind), run_.text_of(info.name));
    if (info.ranks.size() > 1)
      name += fmt::format(" ({} ranks from {})", info.ranks.size(), info.ranks.front());
    const std::size_t first = processes_.size();
    for (const std::uint32_t device : devices)
      processes_.push_back(
          {run::ClassRow(c), device,
           devices.size() == 1 ? name : fmt::format("{}, device {}", name, device)});
    for (std::uint32_t i = 0; i < streams_of[c].size(); ++i) {
      Stream& stream = streams_[streams_of[c][i]];
      const auto device = devices.find(are_recorded ? recorded[i]->device : 0);
      stream.track.process =
          static_cast<std::uint32_t>(first + std::distance(devices.begin(), device) + 1);
      stream.number = are_recorded ? recorded[i]->stream : i;
      const std::string_view text = run_.text_of(run_.streams[streams_of[c][i]].name);
      stream.name = are_recorded ? fmt::format("stream {}", stream.number) : std::string(text);
    }
  }
}

void ChromeTracks::add_host_times() {
  for (std::size_t s = 0; s < run_.steps.size(); ++s) {
    const run::OpSpan ops = run::ops_of(run_, run::StepRow(s));
    std::optional<HostStep>& host = host_times_.emplace_back();
    for (std::size_t row = ops.first; row < ops.last; ++row) {
      const Ns time = launch_time(run_, run::OpRow(row)).value_or(run_.ops.start[row]);
      if (!host) host = {time, time + 1};
      host->begin = std::min(host->begin, time);
      host->end = std::max(host->end, time + 1);
    }
  }
}

ChromeTrack ChromeTracks::add_thread(std::uint32_t process, std::string name) {
  const ChromeTrack track{process, ++threads_of_[process]};
  threads_.push_back({track, std::move(name)});
  return track;
}

void ChromeTracks::add_step_tracks(run::ClassRow rank_class, std::uint32_t process) {
  struct Group {
    std::vector<std::uint32_t> rows;
    std::vector<LaneSlice> slices;
  } on_device, on_host;
  for (std::uint32_t s = 0; s < run_.steps.size(); ++s) {
    const run::StepInfo& step = run_.steps[s];
    if (step.rank_class != rank_class) continue;
    on_device.rows.push_back(s);
    on_device.slices.push_back({0, step.begin, step.end});
    if (!host_times_[s]) continue;
    on_host.rows.push_back(s);
    on_host.slices.push_back({0, host_times_[s]->begin, host_times_[s]->end});
  }
  const auto add = [&](const Group& group, const char* name, std::vector<ChromeTrack>& tracks) {
    const Lanes lanes = lay_out_lanes(group.slices, 1);
    ChromeTrack first;
    for (std::uint32_t lane = 0; lane < lanes.count[0]; ++lane) {
      const ChromeTrack track = add_thread(process, numbered(name, lane));
      if (lane == 0) first = track;
    }
    for (std::size_t i = 0; i < group.rows.size(); ++i)
      tracks[group.rows[i]] = {first.process, first.thread + lanes.lane[i]};
  };
  add(on_device, "steps", steps_);
  if (!on_host.rows.empty()) add(on_host, "host's steps", host_steps_);
  firsts_[rank_class.row()] = {process, 1};
}

void ChromeTracks::add_threads() {
  if (run_.about.kind == run::RunKind::predicted)
    for (std::size_t c = 0; c < hosts_.size(); ++c)
      hosts_[c] = add_thread(firsts_[c].process, "host");
  std::vector<LaneSlice> slices;
  for (const run::HostCallRecord& call : run_.calls)
    slices.push_back({call.thread.row(), call.start, call.end});
  const Lanes lanes = lay_out_lanes(slices, run_.threads.size());
  std::vector<ChromeTrack> first(run_.threads.size());
  for (std::size_t t = 0; t < run_.threads.size(); ++t) {
    const run::ThreadInfo& info = run_.threads[t];
    const std::string name = fmt::format("thread {}", run_.text_of(info.name));
    for (std::uint32_t lane = 0; lane < lanes.count[t]; ++lane) {
      const ChromeTrack track =
          add_thread(firsts_[info.rank_class.row()].process, numbered(name, lane));
      if (lane == 0) first[t] = track;
    }
  }
  for (std::size_t i = 0; i < calls_.size(); ++i) {
    calls_[i] = first[slices[i].group];
    calls_[i].thread += lanes.lane[i];
  }
}

void ChromeTracks::add_stream_tracks() {
  std::vector<LaneSlice> slices(run_.ops.size());
  for (std::size_t i = 0; i < slices.size(); ++i)
    slices[i] = {run_.ops.stream[i].row(), run_.ops.start[i], run_.ops.end[i]};
  Lanes lanes = lay_out_lanes(slices, run_.streams.size());
  for (std::size_t s = 0; s < streams_.size(); ++s)
    for (std::uint32_t lane = 0; lane < lanes.count[s]; ++lane) {
      const ChromeTrack track =
          add_thread(streams_[s].track.process, numbered(streams_[s].name, lane));
      if (lane == 0) streams_[s].track = track;
    }
  lanes_ = std::move(lanes.lane);
}

}  // namespace foregather::traces
