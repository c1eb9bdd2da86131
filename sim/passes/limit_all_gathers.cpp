#include <algorithm>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "sim/passes/arguments.h"
#include "sim/passes/gather_chain.h"
#include "sim/passes/host_actions.h"
#include "sim/passes/limit_all_gathers.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

// A free of gathered parameters. `events` are what is recorded for the host right behind it: the
// free's, and on a stream without work the one of the step before.
struct Put {
  ActionIndex end = 0;  ///< the last free
  StreamId stream;      ///< that used them last
  std::optional<std::uint32_t> event, before;
};

// What the puts of one ordinal in both sections share.
struct Slot {
  std::optional<std::uint32_t> event, before;
  bool is_awaited = false, is_before_awaited = false;
};

// What a section has of the queue, in host order.
struct Part {
  HostActions actions;
  std::vector<Put> puts;
  std::vector<ActionIndex> takes;  ///< where a gather's issue begins, or the host waits
};

class Limiter {
 public:
  Limiter(Rewriter& rewriter, ProgramId program)
      : rewriter_(rewriter),
        program_(program),
        first_(part(Section::first)),
        body_(part(Section::body)) {
    find_waits(first_);
    find_waits(body_);
    find_slots();
  }

  // Without `limit` all waits go; those of unshards in place may leave marks.
  LimitedGathers limit(std::optional<std::size_t> limit, bool leaves_takes) {
    if (leaves_takes) mark_ = rewriter_.add_event(program_).row();
    Plan first, body;
    if (limit) {
      Queue queue;
      first = play(first_, queue, *limit);
      for (int step = 0; step < kMostSteps; ++step) {
        const Queue before = queue;
        body = play(body_, queue, *limit);
        if (queue == before) break;
      }
    }
    record(first, body);
    apply(first_, first);
    return {gathers_, body_.puts.size(), body.size(), apply(body_, body)};
  }

 private:
  static constexpr int kMostSteps = 64;
  // Ordinal of a put in its section, and how many sections ago it was.
  struct Queued {
    std::size_t put = 0;
    std::size_t age = 0;
    friend bool operator==(const Queued&, const Queued&) = default;
  };
  using Queue = std::deque<Queued>;
  struct Awaited {
    std::size_t put = 0;
    bool before = false;  ///< the recording before the latest
  };
  using Plan = std::map<ActionIndex, Awaited>;  ///< by take

  const Graph& graph() const { return rewriter_.graph(); }

  Part part(Section section) {
    Part part{HostActions(graph(), program_, section), {}, {}};
    std::set<ActionIndex> takes, ends;
    for (const GatherChain& chain : gather_chains(graph(), part.actions)) {
      takes.insert(chain.block_begin);
      if (section == Section::body) ++gathers_;
      std::optional<Put> put;
      for (const std::size_t row : chain.full) {
        const Lifetime& binding = part.actions.bindings[row];
        if (!binding.end) continue;
        if (!put || put->end < *binding.end)
          put = Put{*binding.end, user_of(part.actions, chain, binding), {}, {}};
      }
      if (put && ends.insert(put->end).second) part.puts.push_back(*put);
    }
    std::ranges::sort(part.puts, {}, &Put::end);
    for (Put& put : part.puts) find_events(part.actions, put);
    part.takes.assign(takes.begin(), takes.end());
    return part;
  }

  // The stream that uses a unit's parameters last; where nothing reads them after the gather, the
  // one that computed last before they were freed.
  StreamId user_of(const HostActions& actions, const GatherChain& chain,
                   const Lifetime& binding) const {
    const StreamId last = graph().at(actions.op(binding.users.back())).stream;
    if (last != graph().at(chain.op).stream) return last;
    for (ActionIndex at = *binding.end; at-- > chain.at;)
      if (actions.is_launch(at) && graph().at(actions.op(at)).role == Role::compute)
        return graph().at(actions.op(at)).stream;
    return last;
  }

  // An event that at most the host, or a stream without work, waits for.
  void find_events(const HostActions& actions, Put& put) {
    const auto& all = actions.all;
    for (ActionIndex at = put.end + 1; at < all.size() && all[at].list == all[put.end].list; ++at) {
      const Action& action = all[at].action;
      if (action.kind == ActionKind::wait && is_idle(action.stream) &&
          all[at + 1].action.kind == ActionKind::record &&
          all[at + 1].action.stream == action.stream) {
        put.before = all[at + 1].action.a;
        limiter_events_.insert(all[at + 1].action.a);
        ++at;
        continue;
      }
      if (action.kind == ActionKind::record && action.stream == put.stream &&
          !is_awaited_by_streams(action.a)) {
        put.event = action.a;
        limiter_events_.insert(action.a);
        return;
      }
      const bool is_placeholder = action.kind == ActionKind::host_delay && action.a == 0;
      if (!is_placeholder && action.kind != ActionKind::free &&
          action.kind != ActionKind::release && action.kind != ActionKind::record_stream &&
          action.kind != ActionKind::record)
        return;
    }
  }

  bool is_awaited_by_streams(std::uint32_t event) {
    if (!awaited_) {
      awaited_.emplace();
      for (const Section section : {Section::first, Section::body})
        for (const ActionList& list : rewriter_.lists(section))
          if (list.program == program_)
            for (const Action& action : rewriter_.actions(list))
              if (action.kind == ActionKind::wait && !is_idle(action.stream))
                awaited_->insert(action.a);
    }
    return awaited_->contains(event);
  }

  bool is_recorded(std::uint32_t event) {
    if (!recorded_) {
      recorded_.emplace();
      for (const Section section : {Section::first, Section::body})
        for (const ActionList& list : rewriter_.lists(section))
          if (list.program == program_)
            for (const Action& action : rewriter_.actions(list))
              if (action.kind == ActionKind::record) recorded_->insert(action.a);
    }
    return recorded_->contains(event);
  }

  bool is_idle(StreamId stream) {
    if (working_.empty())
      for (const Op& op : graph().ops) working_.insert(op.stream);
    return !working_.contains(stream);
  }

  // The host's waits for those events, or for one that nothing records; before one that is no
  // gather's there is an unshard that finds its parameters in place.
  void find_waits(Part& part) {
    for (ActionIndex at = 0; at < part.actions.all.size(); ++at) {
      const Action& action = part.actions.all[at].action;
      if (action.kind != ActionKind::host_wait_event) continue;
      const bool is_gathers = std::ranges::binary_search(part.takes, at + 1);
      if (!is_gathers && !limiter_events_.contains(action.a) && is_recorded(action.a)) continue;
      if (!is_gathers) part.takes.insert(std::ranges::upper_bound(part.takes, at), at);
    }
  }

  Plan play(const Part& part, Queue& queue, std::size_t limit) {
    Plan plan;
    for (Queued& queued : queue) ++queued.age;
    std::size_t put = 0;
    const auto put_up_to = [&](ActionIndex at) {
      for (; put < part.puts.size() && part.puts[put].end < at; ++put) queue.push_back({put, 0});
    };
    for (const ActionIndex take : part.takes) {
      put_up_to(take);
      if (queue.size() < limit) continue;
      const Queued oldest = queue.front();
      queue.pop_front();
      // How often its slot has been recorded since.
      const std::size_t later = oldest.age == 0 ? 0 : oldest.age - 1 + (oldest.put < put ? 1 : 0);
      if (later <= 1) plan[take] = {oldest.put, later == 1};
    }
    put_up_to(part.actions.all.size());
    return plan;
  }

  void find_slots() {
    slots_.resize(std::max(first_.puts.size(), body_.puts.size()));
    for (const Part* part : {&first_, &body_})
      for (std::size_t i = 0; i < part->puts.size(); ++i) {
        if (part->puts[i].event) slots_[i].event = part->puts[i].event;
        if (part->puts[i].before) slots_[i].before = part->puts[i].before;
      }
  }

  // What a plan waits for is recorded behind the puts of both sections.
  void record(const Plan& first, const Plan& body) {
    for (const Plan* plan : {&first, &body})
      for (const auto& [take, awaited] : *plan) {
        Slot& slot = slots_[awaited.put];
        slot.is_awaited = true;
        slot.is_before_awaited |= awaited.before;
      }
    for (std::size_t i = 0; i < slots_.size(); ++i) {
      Slot& slot = slots_[i];
      if (!slot.is_awaited) continue;
      if (!slot.event) slot.event = rewriter_.add_event(program_).row();
      if (slot.is_before_awaited && !slot.before) slot.before = rewriter_.add_event(program_).row();
      for (const Part* part : {&first_, &body_}) {
        if (i >= part->puts.size()) continue;
        const Put& put = part->puts[i];
        const PlacedAction& placed = part->actions.all[put.end];
        const auto insert = [&](ActionKind kind, StreamId stream, std::uint32_t event) {
          rewriter_.insert_after(placed.list, placed.position, {kind, stream, event, 0});
        };
        if (slot.is_before_awaited && put.before != slot.before) {
          insert(ActionKind::wait, idle_stream(), *slot.event);
          insert(ActionKind::record, idle_stream(), *slot.before);
        }
        if (put.event != slot.event) insert(ActionKind::record, put.stream, *slot.event);
      }
    }
  }

  StreamId idle_stream() {
    Program& program = rewriter_.graph().programs[program_.row()];
    if (!idle_) {
      for (std::size_t row = 0; row < program.streams.size(); ++row)
        if (is_idle(StreamId(row)) && graph().text(program.streams[row].name) == "rate_limiter")
          idle_ = StreamId(row);
    }
    if (!idle_) {
      program.streams.push_back({rewriter_.graph().strings.intern("rate_limiter"), 0});
      idle_ = StreamId(program.streams.size() - 1);
    }
    return *idle_;
  }

  std::size_t apply(const Part& part, const Plan& plan) {
    std::size_t changed = 0;
    const auto& all = part.actions.all;
    for (const ActionIndex take : part.takes) {
      // In front of a gather's issue, or the wait itself.
      std::optional<ActionIndex> now;
      if (all[take].action.kind == ActionKind::host_wait_event)
        now = take;
      else if (take > 0 && all[take - 1].list == all[take].list &&
               all[take - 1].action.kind == ActionKind::host_wait_event)
        now = take - 1;
      const auto wanted = plan.find(take);
      if (wanted == plan.end()) {
        if (!now) continue;
        rewriter_.erase(all[*now].list, all[*now].position);
        if (mark_ && now == take)
          rewriter_.insert_before(all[take].list, all[take].position,
                                  {ActionKind::host_wait_event, {}, *mark_, 0});
        ++changed;
        continue;
      }
      const Slot& slot = slots_[wanted->second.put];
      const Action wait{
          ActionKind::host_wait_event, {}, wanted->second.before ? *slot.before : *slot.event, 0};
      if (now && all[*now].action == wait) continue;
      if (now) rewriter_.erase(all[*now].list, all[*now].position);
      rewriter_.insert_before(all[take].list, all[take].position, wait);
      ++changed;
    }
    return changed;
  }

  Rewriter& rewriter_;
  ProgramId program_;
  std::size_t gathers_ = 0;
  std::set<StreamId> working_;
  std::set<std::uint32_t> limiter_events_;
  std::optional<std::set<std::uint32_t>> awaited_, recorded_;
  std::optional<StreamId> idle_;
  std::optional<std::uint32_t> mark_;
  Part first_, body_;
  std::vector<Slot> slots_;  ///< by ordinal of a put
};

struct LimitAllGathers {
  std::string text;
  std::optional<std::size_t> most;

  Result<PassNote> operator()(PassTarget& target) const {
    Rewriter rewriter(target.graph);
    const LimitedGathers limited = limit_all_gathers(rewriter, most);
    if (!most) {
      if (limited.changed == 0) return PassNote{text, "no gather waits for a rate limiter", false};
      return settle(
          target, rewriter,
          {text, fmt::format("{} waits of the host before gathers dropped", limited.changed),
           true});
    }
    if (limited.gathers == 0) return PassNote{text, "the schedule has no gathers", false};
    if (limited.frees == 0)
      return PassNote{text, "a step frees no gathered parameters that a gather could wait for",
                      false};
    if (limited.changed == 0)
      return PassNote{
          text,
          fmt::format("the host waits before a step's {} gathers as it is to", limited.gathers),
          false};
    return settle(target, rewriter,
                  {text,
                   fmt::format("the host waits {} times before a step's {} gathers, {} changed",
                               limited.waits, limited.gathers, limited.changed),
                   true});
  }
};

Result<Pass> parse_limit(const PassArguments& arguments) {
  constexpr std::uint32_t kMost = 1000;
  const auto count = parse_count(arguments.argument, 1, kMost);
  if ((!count && arguments.argument != "none") || !arguments.options.empty())
    return bad_pass(arguments,
                    "expected limit-all-gathers=N with N from 1 to {}, or limit-all-gathers=none",
                    kMost);
  LimitAllGathers pass{std::string(arguments.text), {}};
  if (count) pass.most = *count;
  return Pass(pass);
}

}  // namespace

LimitedGathers limit_all_gathers(Rewriter& rewriter, std::optional<std::size_t> most,
                                 bool leaves_takes) {
  LimitedGathers limited;
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    Limiter limiter(rewriter, ProgramId(p));
    const LimitedGathers own = limiter.limit(most, leaves_takes);
    limited.gathers += own.gathers;
    limited.frees += own.frees;
    limited.waits += own.waits;
    limited.changed += own.changed;
  }
  return limited;
}

// torch/distributed/fsdp/_limiter_utils.py (reference: PyTorch §B.5).
const PassInfo kLimitPass{
    "limit-all-gathers", "=N|none",
    "makes the host wait before a gather for the oldest of N or more units that it freed, or takes "
    "such waits away",
    R"(FSDP1's rate limiter (`limit_all_gathers`, N = 2). Where gathered parameters are freed their stream
records an event, which joins a queue; before a gather allocates, and N or more are queued, the host
waits for the oldest. Otherwise the host runs ahead, and blocks that `record_stream` holds back pile up:
more memory, less waiting. N changes a limiter that is there, or adds one to any schedule; `none` takes
it away. The queue lives on from step to step.

    none   host  gather 1, gather 2, gather 3
    N = 1  host  gather 1, (wait: free 1) gather 2, (wait: free 2) gather 3

An unshard that finds its parameters in place takes part where its wait is still in the schedule. An
event that is two steps old is kept by a stream without work, an older one is not waited for. Events that
nobody waits for any more are recorded as before. Idempotent.
)",
    &parse_limit};

}  // namespace foregather::sim
