#include "core/rebuild/pipeline.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <map>

#include "core/ir/builder.h"
#include "core/rebuild/pipeline_events.h"
#include "core/rebuild/stretches.h"
#include "core/rebuild/usual_times.h"
#include "core/run/span.h"

namespace foregather::rebuild {
namespace {

/// Recorded times of the lanes of one rank differ by some microseconds: so much may an op begin
/// before the end of what it waited for.
constexpr Ns kLaneSkew = 20 * kMicrosecond;

OpKind kind_of(std::string_view name, bool is_communication) {
  constexpr std::array<std::pair<std::string_view, OpKind>, 5> kWords{{
      {"-send", OpKind::send_recv},
      {"-recv", OpKind::send_recv},
      {"all-gather", OpKind::all_gather},
      {"reduce-scatter", OpKind::reduce_scatter},
      {"broadcast", OpKind::broadcast},
  }};
  if (!is_communication) return name == "optimizer" ? OpKind::optimizer : OpKind::other;
  for (const auto& [word, kind] : kWords)
    if (name.find(word) != std::string_view::npos) return kind;
  return OpKind::all_reduce;
}

Phase phase_of(std::string_view name) {
  if (name.starts_with("forward")) return Phase::forward;
  if (name.starts_with("backward")) return Phase::backward;
  return name.starts_with("optimizer") ? Phase::optimizer : Phase::other;
}

class Rebuilding {
 public:
  Rebuilding(const run::Recording& recording, const PipelineEvents& found, const PipelineStep& step)
      : recording_(recording),
        found_(found),
        step_(step),
        groups_(pipeline_groups(recording, found)),
        deps_(step.last - step.first),
        ready_(deps_.size()),
        has_before_(deps_.size()),
        lead_(deps_.size()),
        of_rank_(found.ranks.size()) {
    for (std::size_t i = 0; i < deps_.size(); ++i) of_rank_[event(i).rank].push_back(i);
  }

  Rebuilt run() {
    find_usual_times();
    for (std::uint32_t rank = 0; rank < found_.ranks.size(); ++rank) find_deps(rank);
    add_communicators();
    for (std::uint32_t rank = 0; rank < found_.ranks.size(); ++rank) add_program(rank);
    rebuilt_.is_one_recording = true;
    rebuilt_.graph = builder_.finish();
    rebuilt_.graph.world_size = static_cast<std::uint32_t>(found_.ranks.size());
    return std::move(rebuilt_);
  }

 private:
  const PipelineEvent& event(std::size_t i) const { return found_.events[step_.first + i]; }
  std::string_view name(std::size_t i) const { return recording_.text(event(i).name); }
  Ns start(std::size_t i) const { return event(i).start - step_.begin; }
  Ns end(std::size_t i) const { return event(i).end - step_.begin; }

  void find_usual_times() {
    std::map<StringId, std::vector<Ns>> durations;
    for (const PipelineEvent& one : found_.events)
      durations[one.name].push_back(one.end - one.start);
    for (auto& [id, of] : durations) {
      const std::string_view text = recording_.text(id);
      usual_[id] = usual_time(of, !text.ends_with("-compute") && text != "optimizer");
    }
  }

  void wait_for(std::size_t i, std::size_t dep) {
    const bool is_before = event(dep).stream == event(i).stream;
    if (!is_before && (dep >= i || end(dep) > start(i) + kLaneSkew)) return;
    ready_[i] = std::max(ready_[i], end(dep));
    has_before_[i] = true;
    if (!is_before) deps_[i].push_back(static_cast<std::uint32_t>(dep));
  }

  using NamedEvents =
      std::map<std::pair<std::string_view, std::string_view>, std::vector<std::size_t>>;

  // Behind the compute that ended last before, of either direction.
  void post_receives(NamedEvents& named) {
    std::vector<std::size_t> computes = named[{"forward", "compute"}];
    const auto& backward = named[{"backward", "compute"}];
    computes.insert(computes.end(), backward.begin(), backward.end());
    std::ranges::sort(computes, {}, [&](std::size_t i) { return end(i); });
    for (const std::string_view direction : {"forward", "backward"})
      for (const std::size_t receive : named[{direction, "recv"}]) {
        const auto next = std::ranges::upper_bound(computes, start(receive) + kLaneSkew, {},
                                                   [&](std::size_t i) { return end(i); });
        if (next != computes.begin()) wait_for(receive, *(next - 1));
      }
  }

  void find_deps(std::uint32_t rank) {
    std::map<StringId, std::vector<std::size_t>> streams;
    NamedEvents named;
    for (const std::size_t i : of_rank_[rank]) {
      for (auto& [stream, before] : streams) {
        if (stream == event(i).stream) {
          wait_for(i, before.back());
          continue;
        }
        if (event(i).between_stages || event(before.back()).between_stages) continue;
        const auto last = std::partition_point(before.begin(), before.end(), [&](std::size_t k) {
          return end(k) <= start(i) + kLaneSkew;
        });
        if (last != before.begin()) wait_for(i, *(last - 1));
      }
      streams[event(i).stream].push_back(i);
      if (const PipelineName parts = pipeline_name(name(i)); !parts.direction.empty())
        named[{parts.direction, parts.what}].push_back(i);
    }
    post_receives(named);
    for (const std::string_view direction : {"forward", "backward"}) {
      const auto& computes = named[{direction, "compute"}];
      const auto& receives = named[{direction, "recv"}];
      const auto& sends = named[{direction, "send"}];
      for (std::size_t n = 0; n < computes.size(); ++n) {
        if (receives.size() == computes.size()) {
          wait_for(computes[n], receives[n]);
          if (n > 0) wait_for(receives[n], computes[n - 1]);
        }
        if (sends.size() == computes.size()) wait_for(sends[n], computes[n]);
      }
    }
  }

  // Where the ranks of a group do not have as many collectives each, they do not meet.
  void add_communicators() {
    std::map<std::uint32_t, std::map<std::uint32_t, std::vector<std::size_t>>> members;
    for (std::size_t i = 0; i < deps_.size(); ++i) {
      lead_[i] = std::max<Ns>(start(i) - ready_[i], 0);
      const auto group = groups_[step_.first + i];
      if (!group) continue;
      members[*group][event(i).rank].push_back(i);
    }
    communicators_.resize(deps_.size());
    matched_.resize(deps_.size());
    std::int64_t apart = 0;
    for (const auto& [group, of] : members) {
      std::vector<std::uint32_t> ranks;
      std::size_t most = 0, least = deps_.size();
      for (const auto& [rank, events] : of) {
        ranks.push_back(rank);
        most = std::max(most, events.size());
        least = std::min(least, events.size());
      }
      const std::size_t any = of.begin()->second.front();
      if (most == least) {
        meet(any, ranks, of);
        continue;
      }
      for (const auto& [rank, events] : of) {
        apart += std::ssize(events);
        const CommunicatorId own = communicator(any, std::array{rank});
        for (const std::size_t i : events) communicators_[i] = own;
      }
    }
    if (apart > 0)
      rebuilt_.warnings.push_back(
          fmt::format("{}: {} collectives have no counterpart on the other ranks of their group",
                      recording_.source, apart));
  }

  CommunicatorId communicator(std::size_t any, std::span<const std::uint32_t> ranks) {
    const std::string text = fmt::format("{} of ranks {}", name(any), fmt::join(ranks, ", "));
    return builder_.communicator(text, builder_.group(text, ranks, 1));
  }

  // What is left of a collective's start is what is left behind the last of its ranks.
  void meet(std::size_t any, const std::vector<std::uint32_t>& ranks,
            const std::map<std::uint32_t, std::vector<std::size_t>>& of) {
    const CommunicatorId shared = communicator(any, ranks);
    for (std::size_t n = 0; n < of.begin()->second.size(); ++n) {
      Ns least = lead_[of.begin()->second[n]];
      bool has_before = false;
      for (const auto& [rank, events] : of) {
        least = std::min(least, lead_[events[n]]);
        has_before = has_before || has_before_[events[n]];
      }
      for (const auto& [rank, events] : of) {
        const std::size_t i = events[n];
        communicators_[i] = shared;
        lead_[i] = least;
        has_before_[i] = has_before;
        matched_[i] = ranks.size() > 1;
      }
    }
  }

  void add_program(std::uint32_t rank) {
    RebuiltRank figures;
    figures.source = fmt::format("{}, {} of {}", recording_.source, found_.ranks[rank].label,
                                 recording_.text(found_.ranks[rank].process));
    figures.rank = rank;
    const ProgramId program = builder_.begin_program(figures.source);
    std::map<StringId, StreamId> streams;
    std::map<std::size_t, OpId> ops;
    const std::uint32_t thread = builder_.thread("launches");
    std::vector<Stretch> unexplained;
    for (const std::size_t i : of_rank_[rank]) {
      const auto [stream, is_new] = streams.try_emplace(event(i).stream);
      if (is_new) stream->second = builder_.stream(recording_.text(event(i).stream));
      std::vector<OpId> deps;
      for (const std::uint32_t dep : deps_[i]) deps.push_back(ops.at(dep));
      const OpId op = builder_.op(spec(i, stream->second), {}, deps);
      ops.emplace(i, op);
      builder_.select(thread, Section::body);
      builder_.launch(op);
      figures.measured = std::max(figures.measured, end(i));
      unexplained.push_back({start(i) - lead_[i], start(i)});
      figures.pinned += !has_before_[i] && lead_[i] > 0 ? 1 : 0;
      figures.inferred_deps += std::ssize(deps);
      figures.matched += matched_[i] ? 1 : 0;
      ++figures.ops;
    }
    figures.streams = std::ssize(streams);
    figures.unexplained = covered_by(std::move(unexplained));
    builder_.end_program();
    HostThread& host = builder_.graph().programs[program.row()].threads[thread];
    host.sections[static_cast<std::size_t>(Section::first)] =
        host.sections[static_cast<std::size_t>(Section::body)];
    RankClass rank_class;
    rank_class.program = program;
    rank_class.name = builder_.graph().strings.intern(fmt::format("rank {}", rank));
    builder_.rank_class(rank_class, std::array{rank});
    rebuilt_.ranks.push_back(std::move(figures));
  }

  OpSpec spec(std::size_t i, StreamId stream) {
    OpSpec spec;
    spec.kind = kind_of(name(i), event(i).is_communication);
    spec.phase = phase_of(name(i));
    spec.micro_batch = static_cast<std::uint16_t>(event(i).nth);
    spec.scope = builder_.scope(name(i));
    spec.stream = stream;
    Cost cost;
    cost.kind = spec.kind;
    cost.is_fixed = true;
    cost.kernels = 0;
    cost.fixed_time = end(i) - start(i);
    cost.lead = lead_[i];
    if (!has_before_[i]) cost.launch_lead = lead_[i];
    cost.usual_time = usual_.at(event(i).name);
    if (is_collective(spec.kind)) {
      spec.role = Role::other;
      spec.communicator = communicators_[i];
      cost.group = builder_.graph().at(spec.communicator).group;
    }
    spec.cost = builder_.cost(cost);
    return spec;
  }

  const run::Recording& recording_;
  const PipelineEvents& found_;
  const PipelineStep& step_;
  std::vector<std::optional<std::uint32_t>> groups_;  // by row of the events
  std::map<StringId, Ns> usual_;
  // By event of the step.
  std::vector<std::vector<std::uint32_t>> deps_;  // of other streams
  std::vector<Ns> ready_;                         // all that it waits for has ended
  std::vector<bool> has_before_;
  std::vector<Ns> lead_;
  std::vector<CommunicatorId> communicators_;
  std::vector<bool> matched_;
  std::vector<std::vector<std::size_t>> of_rank_;  // events, by rank
  GraphBuilder builder_;
  Rebuilt rebuilt_;
};

// The numbers of the steps, by length.
std::vector<std::int64_t> by_length(const PipelineEvents& found) {
  std::vector<std::pair<Ns, std::int64_t>> lengths;
  for (const auto& [number, step] : found.steps) lengths.emplace_back(step.length(), number);
  std::sort(lengths.begin(), lengths.end());
  std::vector<std::int64_t> numbers;
  for (const auto& [length, number] : lengths) numbers.push_back(number);
  return numbers;
}

}  // namespace

bool is_pipeline(const run::Recording& recording) {
  return std::any_of(recording.labels.begin(), recording.labels.end(),
                     [&](const run::LaneLabel& label) {
                       return label.thread && recording.text(label.thread).starts_with("PP rank ");
                     });
}

Result<Rebuilt> rebuild_pipeline(const run::Recording& recording,
                                 std::optional<std::int64_t> step) {
  const PipelineEvents found = pipeline_events(recording);
  if (found.steps.empty())
    return fail_at(recording.source, "has no activities of steps and ranks to replay");
  const std::vector<std::int64_t> numbers = by_length(found);
  const std::int64_t chosen = step.value_or(numbers[(numbers.size() - 1) / 2]);
  if (!found.steps.contains(chosen)) {
    std::vector<std::int64_t> known;
    for (const auto& [number, at] : found.steps) known.push_back(number);
    return fail_at(recording.source, "has no step {}, expected one of {}", chosen,
                   fmt::join(known, ", "));
  }
  const PipelineStep& replayed = found.steps.at(chosen);
  if (const Status sane = run::check_span(recording.source, replayed.length()); !sane)
    return tl::unexpected(sane.error());
  Rebuilt rebuilt = Rebuilding(recording, found, replayed).run();
  if (!step && numbers.size() > 1)
    rebuilt.warnings.push_back(fmt::format(
        "{}: has {} steps; step {}, the one of median length, is replayed (--step chooses)",
        recording.source, numbers.size(), chosen));
  if (found.left_out > 0)
    rebuilt.warnings.push_back(
        fmt::format("{}: {} activities without a step or outside the lanes of a rank are left out",
                    recording.source, found.left_out));
  return rebuilt;
}

}  // namespace foregather::rebuild
