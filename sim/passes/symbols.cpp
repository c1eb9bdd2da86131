#include "sim/passes/symbols.h"

#include <algorithm>
#include <cassert>
#include <optional>
#include <set>

namespace foregather::sim {
namespace {

// Cuts a section into runs.
class RunReader {
 public:
  RunReader(const Graph& graph, const HostActions& actions) : graph_(graph), actions_(actions) {}

  std::vector<SymbolRun> runs() {
    std::vector<SymbolRun> runs;
    SymbolRun run;
    const auto close = [&](ActionIndex end) {
      run.end = end;
      if (run.symbols.size() > 1) runs.push_back(std::move(run));
      run = {};
      pending_.clear();
      launched_.clear();
    };
    for (ActionIndex at = 0; at < actions_.all.size(); ++at) {
      const PlacedAction& placed = actions_.all[at];
      if (run.list != placed.list || run.begin == run.end) {
        if (run.list != placed.list) close(at);
        run.list = placed.list;
        if (run.end == run.begin) run.begin = at;
      }
      run.end = at + 1;
      if (add(run, at)) continue;
      close(at);
      run.list = placed.list;
      run.begin = run.end = at + 1;
    }
    close(actions_.all.size());
    for (SymbolRun& each : runs) find_needs(each);
    return runs;
  }

 private:
  const Action& action(ActionIndex at) const { return actions_.all[at].action; }

  // False: a barrier.
  bool add(SymbolRun& run, ActionIndex at) {
    const Action& what = action(at);
    if (is_memory(what.kind)) {
      run.memory.push_back(at);
      return true;
    }
    if (what.kind == ActionKind::host_delay) {
      pending_.push_back(at);
      return true;
    }
    if (what.kind == ActionKind::launch) {
      Symbol symbol;
      symbol.op = actions_.op(at);
      symbol.actions = std::move(pending_);
      pending_.clear();
      symbol.actions.push_back(at);
      run.symbols.push_back(std::move(symbol));
      return true;
    }
    if (what.kind == ActionKind::record) return add_record(run, at);
    if (what.kind == ActionKind::wait) return add_wait(run, at);
    return false;
  }

  bool add_record(SymbolRun& run, ActionIndex at) {
    // Behind a collective, on its stream: its event.
    if (!run.symbols.empty() && !run.symbols.back().is_wait) {
      Symbol& last = run.symbols.back();
      const Op& op = graph_.at(last.op);
      if (is_collective(op.kind) && op.stream == action(at).stream && pending_.empty()) {
        last.actions.push_back(at);
        launched_[action(at).a] = run.symbols.size() - 1;
        return true;
      }
    }
    // Before a collective, whose stream waits for the caller's.
    if (at + 1 < actions_.all.size() && action(at + 1).kind == ActionKind::wait &&
        action(at + 1).a == action(at).a && actions_.all[at + 1].list == run.list) {
      ActionIndex next = at + 2;
      while (next < actions_.all.size() && is_memory(action(next).kind)) ++next;
      if (next < actions_.all.size() && actions_.is_launch(next) &&
          actions_.all[next].list == run.list &&
          graph_.at(actions_.op(next)).stream == action(at + 1).stream) {
        launched_.erase(action(at).a);
        pending_.push_back(at);
        pending_.push_back(at + 1);
        return true;
      }
    }
    return false;
  }

  bool add_wait(SymbolRun& run, ActionIndex at) {
    if (!pending_.empty() && pending_.back() == at) return true;
    const auto found = launched_.find(action(at).a);
    if (found == launched_.end()) return false;
    Symbol symbol;
    symbol.is_wait = true;
    symbol.op = run.symbols[found->second].op;
    symbol.actions = std::move(pending_);
    pending_.clear();
    symbol.actions.push_back(at);
    symbol.needs.push_back(found->second);
    run.symbols.push_back(std::move(symbol));
    return true;
  }

  void find_needs(SymbolRun& run) const {
    struct Touch {
      std::size_t symbol;
      std::optional<std::size_t> binding;
      bool writes;
    };
    std::map<StorageId, std::vector<Touch>> touches;
    std::map<OpId, std::size_t> launched;
    std::vector<std::size_t> waits;
    for (std::size_t i = 0; i < run.symbols.size(); ++i) {
      Symbol& symbol = run.symbols[i];
      if (symbol.is_wait) {
        waits.push_back(i);
        continue;
      }
      const Op& op = graph_.at(symbol.op);
      const ActionIndex at = launch_of(symbol);
      std::set<std::size_t> needs;
      for (const OpId dep : graph_.deps_of(op))
        if (const auto found = launched.find(dep); found != launched.end())
          needs.insert(found->second);
      launched[symbol.op] = i;
      for (const AccessedTensor& part : graph_.accesses_of(op)) {
        const StorageId storage = graph_.at(part.tensor).storage;
        const auto binding = actions_.binding_at(at, storage);
        const bool writes = part.mode != Access::read;
        std::vector<Touch>& known = touches[storage];
        for (const Touch& earlier : known) {
          if (earlier.symbol == i) continue;
          if (earlier.binding == binding && !earlier.writes && !writes) continue;
          needs.insert(earlier.symbol);
          const OpId other = run.symbols[earlier.symbol].op;
          if (graph_.at(other).stream == op.stream) continue;
          // Ordered by the waits of this stream in between, on whatever came before them.
          for (const std::size_t wait : waits)
            if (wait > earlier.symbol && run.symbols[wait].op == other) needs.insert(wait);
        }
        known.push_back({i, binding, writes});
      }
      symbol.needs.assign(needs.begin(), needs.end());
    }
  }

  ActionIndex launch_of(const Symbol& symbol) const {
    for (const ActionIndex at : symbol.actions)
      if (actions_.is_launch(at)) return at;
    assert(false);
    return 0;
  }

  const Graph& graph_;
  const HostActions& actions_;
  std::vector<ActionIndex> pending_;               ///< belong to the next symbol
  std::map<std::uint32_t, std::size_t> launched_;  ///< event -> symbol of its collective
};

// Writes one run in its new order.
class RunWriter {
 public:
  RunWriter(Rewriter& rewriter, const HostActions& actions, const SymbolRun& run,
            std::map<OpId, EventId>& events)
      : rewriter_(rewriter), actions_(actions), run_(run), events_(events) {}

  void write(const std::vector<std::size_t>& order) {
    std::vector<std::size_t> place(order.size());
    for (std::size_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    // Memory actions before symbol i are at 2·i, those behind it at 2·i + 1.
    std::vector<std::vector<ActionIndex>> memory(2 * order.size() + 1);
    std::vector<ActionIndex> first;
    for (const ActionIndex at : run_.memory) {
      const auto slot = slot_of(at, place);
      (slot ? memory[*slot] : first).push_back(at);
    }
    for (const ActionIndex at : first) emit(at, nullptr);
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (const ActionIndex at : memory[2 * i]) emit(at, nullptr);
      for (const ActionIndex at : run_.symbols[order[i]].actions) emit(at, &run_.symbols[order[i]]);
      for (const ActionIndex at : memory[2 * i + 1]) emit(at, nullptr);
    }
    for (ActionIndex at = run_.begin; at < run_.end; ++at)
      if (kept_.contains(at)) rewriter_.erase(run_.list, actions_.all[at].position);
  }

 private:
  const Graph& graph() const { return rewriter_.graph(); }

  StorageId storage_of(const Action& action) const {
    return action.kind == ActionKind::release ? graph().tensors[action.a].storage
                                              : StorageId(action.a);
  }

  bool touches(const Symbol& symbol, StorageId storage) const {
    for (const AccessedTensor& part : graph().accesses_of(graph().at(symbol.op)))
      if (graph().at(part.tensor).storage == storage) return true;
    return false;
  }

  // Of the binding that an action begins, ends or names: the first user in the new order (alloc) or
  // the last one before which it stood nowhere (others).
  std::optional<std::size_t> slot_of(ActionIndex at, const std::vector<std::size_t>& place) const {
    const Action& action = actions_.all[at].action;
    const StorageId storage = storage_of(action);
    const bool begins = action.kind == ActionKind::alloc;
    const auto binding = actions_.binding_at(begins ? at + 1 : at, storage);
    std::optional<std::size_t> best;
    for (std::size_t i = 0; i < run_.symbols.size(); ++i) {
      const Symbol& symbol = run_.symbols[i];
      if (!touches(symbol, storage)) continue;
      const ActionIndex own = symbol.actions.back();
      const ActionIndex launch = symbol.actions.front();
      if (actions_.binding_at(launch, storage) != binding &&
          actions_.binding_at(own, storage) != binding)
        continue;
      if (begins) {
        if (!symbol.is_wait) best = std::min(best.value_or(2 * place[i]), 2 * place[i]);
      } else if (symbol.is_wait ? own < at : launch < at) {
        best = std::max(best.value_or(0), 2 * place[i] + 1);
      }
    }
    return best;
  }

  void emit(ActionIndex at, const Symbol* symbol) {
    Action action = actions_.all[at].action;
    const bool is_event = action.kind == ActionKind::record || action.kind == ActionKind::wait;
    // The event between a collective and its wait gets a slot of its own.
    if (symbol != nullptr && is_event && (symbol->is_wait || at > launch_of(*symbol))) {
      const auto [found, is_new] = events_.try_emplace(symbol->op, EventId());
      if (is_new) found->second = rewriter_.add_event(run_.list.program);
      action.a = found->second.row();
    }
    rewriter_.insert_before(run_.list, actions_.all[run_.begin].position, action);
    kept_.insert(at);
  }

  ActionIndex launch_of(const Symbol& symbol) const {
    for (const ActionIndex at : symbol.actions)
      if (actions_.is_launch(at)) return at;
    return 0;
  }

  Rewriter& rewriter_;
  const HostActions& actions_;
  const SymbolRun& run_;
  std::map<OpId, EventId>& events_;
  std::set<ActionIndex> kept_;
};

}  // namespace

std::size_t reorder(Rewriter& rewriter, const SymbolOrder& order) {
  std::size_t moved = 0;
  for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
    std::map<OpId, EventId> events;
    for (const Section section : {Section::first, Section::body}) {
      const HostActions actions(rewriter.graph(), ProgramId(p), section);
      for (const SymbolRun& run : RunReader(rewriter.graph(), actions).runs()) {
        const std::vector<std::size_t> wanted = order(rewriter.graph(), run);
        assert(wanted.size() == run.symbols.size());
        std::size_t changed = 0;
        for (std::size_t i = 0; i < wanted.size(); ++i) changed += wanted[i] != i ? 1 : 0;
        if (changed == 0) continue;
        RunWriter(rewriter, actions, run, events).write(wanted);
        if (section == Section::body) moved += changed;
      }
    }
  }
  return moved;
}

}  // namespace foregather::sim
