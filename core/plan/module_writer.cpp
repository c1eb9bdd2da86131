#include "core/plan/module_writer.h"

#include <algorithm>
#include <string>

#include "core/plan/block_ranges.h"
#include "core/plan/host_overhead.h"
#include "core/plan/strategy_schedule.h"

namespace foregather::plan {

namespace {

/// Which policy a module is checkpointed with.
SavePolicy policy_of(const Workload& workload, const Tape& tape, bool is_block,
                     std::int64_t block) {
  const Train& train = workload.train;
  if (!is_block || tape.is_idle) return SavePolicy::none;
  if (train.checkpointing == Checkpointing::selective_op) return SavePolicy::selective_op;
  if (!is_recomputed(train, block)) return SavePolicy::none;
  if (workload.parallel.reentrant_checkpoints) return SavePolicy::reentrant;
  // A compiler drops what nobody reads.
  return train.early_stop || train.compile != Compile::none ? SavePolicy::full : SavePolicy::whole;
}

constexpr std::size_t kPolicies = 5;

/// Does the module hand on what it got (dropout of rate 0)?
bool is_identity(const Tape& tape) {
  return storage_of(tape, tape.output) == storage_of(tape, tape.input);
}

}  // namespace

ModuleWriter::ModuleWriter(Lowering& lowering) : lowering_(lowering), builder_(lowering.builder) {
  stamps_.resize(lowering.modules());
  choose_recipes();
  reserve_storages();
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    add_scopes(m);
    add_storages(m);
  }
  link_boundaries();
}

void ModuleWriter::choose_recipes() {
  const Model& model = lowering_.model;
  // What each tape keeps under each policy, worked out on first use.
  std::vector<SavedValues> saved(model.tapes.size() * kPolicies);
  std::vector<bool> known(saved.size(), false);
  const auto saved_by = [&](std::uint32_t tape, SavePolicy policy) -> const SavedValues& {
    const std::size_t index = tape * kPolicies + static_cast<std::size_t>(policy);
    if (!known[index]) saved[index] = saved_values(model.tapes[tape], policy);
    known[index] = true;
    return saved[index];
  };

  std::int64_t block = 0;
  bool kept_by_previous = false;  // does the module before keep its output, our input?
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    const Module& module = model.modules[m];
    RecipeKey key;
    key.tape = module.tape;
    key.policy = policy_of(lowering_.workload, model.tapes[key.tape], module.is_block, block);
    if (module.is_block) ++block;
    const SavedValues& values = saved_by(key.tape, key.policy);
    const KeptBoundary kept = kept_boundary(model.tapes[key.tape], values);
    if (is_identity(model.tapes[key.tape])) {  // whoever made it, or comes next, frees it
      stamps_[m].recipe = recipe_for(key, values);
      continue;
    }
    key.input = kept_by_previous ? Death::elsewhere
                : kept.input     ? Death::in_backward
                                 : Death::in_forward;
    const bool is_last = m + 1 == lowering_.modules();
    kept_by_previous = kept.output && !is_last;
    key.output = kept_by_previous ? Death::in_backward : Death::elsewhere;
    stamps_[m].recipe = recipe_for(key, values);
  }
}

std::uint32_t ModuleWriter::recipe_for(const RecipeKey& key, const SavedValues& saved) {
  for (std::uint32_t r = 0; r < recipes_.size(); ++r)
    if (recipes_[r].key == key) return r;
  recipes_.push_back(make_recipe(lowering_.model.tapes[key.tape], key, saved, builder_));
  return static_cast<std::uint32_t>(recipes_.size() - 1);
}

void ModuleWriter::reserve_storages() {
  std::size_t places = 0, storages = 0, scopes = 0, forward_ops = 0;
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m) {
    stamps_[m].forward_ops = static_cast<std::uint32_t>(forward_ops);
    forward_ops += recipes_[stamps_[m].recipe].forward.ops.size();
    places += recipes_[stamps_[m].recipe].places();
    storages += recipes_[stamps_[m].recipe].own();
    scopes += lowering_.tape_of(m).scopes.size();
  }
  storages += 8 * lowering_.layout.parameters.size() + 16 * lowering_.layout.units.size();
  Graph& graph = builder_.graph();
  graph.storages.reserve(storages);
  graph.tensors.reserve(storages);
  graph.dims.reserve(storages);
  graph.scopes.reserve(scopes);
  storages_.reserve(places);
  tensors_.reserve(places);
  scopes_.reserve(scopes);
  forward_ops_.resize(forward_ops);
}

void ModuleWriter::add_scopes(std::uint32_t module) {
  stamps_[module].first_scope = static_cast<std::uint32_t>(scopes_.size());
  std::string path = lowering_.model.modules[module].path;
  const std::size_t length = path.size();
  for (const std::string& relative : lowering_.tape_of(module).scopes) {
    path.resize(length);
    if (!relative.empty()) {
      if (length > 0) path += '.';
      path += relative;
    }
    scopes_.push_back(builder_.scope(path));
  }
}

void ModuleWriter::add_storages(std::uint32_t module) {
  Stamp& stamp = stamps_[module];
  const Recipe& recipe = recipes_[stamp.recipe];
  const UnitId unit = lowering_.owners[lowering_.layout.unit_of_module[module]].unit;
  Graph& graph = builder_.graph();
  stamp.first_place = static_cast<std::uint32_t>(storages_.size());
  storages_.resize(storages_.size() + recipe.places());
  tensors_.resize(storages_.size());
  std::uint32_t at = stamp.first_place;
  for (const RecipeStorage& planned : recipe.storages) {
    const StorageId id(graph.storages.size());
    graph.storages.push_back({planned.bytes, planned.name,
                              scopes_[stamp.first_scope + planned.scope], unit, planned.cause,
                              false});
    storages_[at] = id;
    tensors_[at] = TensorId(graph.tensors.size());
    graph.tensors.push_back({id, 0, planned.shape, planned.dtype});
    ++at;
  }
}

void ModuleWriter::link_boundaries() {
  const auto ends = [this](const Tape& tape, ValueIndex value, std::string_view name) {
    const Value& end = tape.values[storage_of(tape, value)];
    return lowering_.buffer(end.bytes / size_of(end.dtype), end.dtype, name, Cause::activation,
                            lowering_.root);
  };
  const std::uint32_t last = lowering_.modules() - 1;
  const Tape& head = lowering_.tape_of(last);
  batch_ = ends(lowering_.tape_of(0), lowering_.tape_of(0).input, "batch");
  loss_gradient_ = ends(head, head.output_grad, "loss gradient");
  for (std::uint32_t m = 0; m <= last; ++m) {
    const Stamp& stamp = stamps_[m];
    const Recipe& recipe = recipes_[stamp.recipe];
    if (m == 0) {
      place(stamp, recipe.input(), batch_);
    } else {
      const Stamp& before = stamps_[m - 1];
      place(stamp, recipe.input(), at(before, recipes_[before.recipe].output));
    }
  }
  for (std::uint32_t m = last + 1; m-- > 0;) {
    const Stamp& stamp = stamps_[m];
    const Recipe& recipe = recipes_[stamp.recipe];
    if (m == last) {
      place(stamp, recipe.output_grad(), loss_gradient_);
    } else {
      const Stamp& after = stamps_[m + 1];
      const Recipe& next = recipes_[after.recipe];
      if (next.has_input_grad) place(stamp, recipe.output_grad(), at(after, next.input_grad));
    }
  }
}

Buffer ModuleWriter::at(const Stamp& stamp, std::uint32_t place) const {
  const StorageId storage = storages_[stamp.first_place + place];
  if (!storage) return {};
  return {storage, tensors_[stamp.first_place + place], builder_.graph().at(storage).bytes};
}

void ModuleWriter::place(const Stamp& stamp, std::uint32_t place, const Buffer& buffer) {
  storages_[stamp.first_place + place] = buffer.storage;
  tensors_[stamp.first_place + place] = buffer.tensor;
}

void ModuleWriter::set_parameter(std::uint32_t module, ParameterIndex index, const Buffer& buffer) {
  const Stamp& stamp = stamps_[module];
  place(stamp, recipes_[stamp.recipe].parameter(index), buffer);
}

void ModuleWriter::set_gradient(std::uint32_t module, ParameterIndex index, const Buffer& buffer) {
  const Stamp& stamp = stamps_[module];
  place(stamp, recipes_[stamp.recipe].first_gradient + index, buffer);
}

Buffer ModuleWriter::gradient(std::uint32_t module, ParameterIndex index) const {
  const Stamp& stamp = stamps_[module];
  return at(stamp, recipes_[stamp.recipe].first_gradient + index);
}

std::vector<ParameterIndex> ModuleWriter::gradients_in_order(std::uint32_t module) const {
  std::vector<ParameterIndex> order;
  for (const RecipeStep& step : recipes_[stamps_[module].recipe].backward.steps)
    if (step.kind == RecipeStep::Kind::grad_ready) order.push_back(step.place);
  return order;
}

SavePolicy ModuleWriter::policy(std::uint32_t module) const {
  return recipes_[stamps_[module].recipe].key.policy;
}

Buffer ModuleWriter::loss() const {
  const Stamp& stamp = stamps_.back();
  return at(stamp, recipes_[stamp.recipe].output);
}

void ModuleWriter::append_accesses(const Stamp& stamp, const RecipePass& pass) {
  std::vector<AccessedTensor>& accesses = builder_.graph().accesses;
  const TensorId* const tensors = tensors_.data() + stamp.first_place;
  for (const RecipeAccess& access : pass.accesses)
    accesses.push_back({tensors[access.place], access.mode, 0, access.bytes});
}

void ModuleWriter::append_pass(std::uint32_t module, const RecipePass& pass,
                               StrategySchedule& strategy) {
  const Stamp& stamp = stamps_[module];
  const Recipe& recipe = recipes_[stamp.recipe];
  const UnitId unit = lowering_.owners[lowering_.layout.unit_of_module[module]].unit;
  const StorageId* const storages = storages_.data() + stamp.first_place;
  const ScopeId* const scopes = scopes_.data() + stamp.first_scope;
  OpId* const forward_ops = forward_ops_.data() + stamp.forward_ops;
  Graph& graph = builder_.graph();
  const auto first_access = static_cast<std::uint32_t>(graph.accesses.size());
  append_accesses(stamp, pass);
  const auto launch = [&](const RecipeOp& planned) {
    const OpId id(graph.ops.size());
    builder_.launch(id);
    Op& op = graph.ops.emplace_back(planned);
    op.micro_batch = lowering_.micro_batch;
    op.scope = scopes[planned.scope_index];
    op.unit = unit;
    op.stream = lowering_.compute;
    op.accesses.first += first_access;
    if (op.phase == Phase::forward) {
      forward_ops[planned.forward_index] = id;
    } else if (op.phase == Phase::recompute) {
      op.origins = {static_cast<std::uint32_t>(graph.op_lists.size()), 1};
      graph.op_lists.push_back(forward_ops[planned.forward_index]);
    }
  };
  const bool hooks = strategy.acts_between_ops(module);
  const bool keeps = keeps_input(module);
  std::uint32_t op = 0;
  bool begun = false;  // the allocations of `op` have
  const auto begin = [&] {
    if (!hooks || begun) return;
    begun = true;
    if (op > 0) strategy.after_op(module, pass.ops[op - 1].phase, op - 1);
    strategy.before_op(module, pass.ops[op].phase, op);
  };
  for (const RecipeStep& step : pass.steps) {
    switch (step.kind) {
      case RecipeStep::Kind::alloc:
        begin();
        builder_.alloc(storages[step.place], lowering_.compute);
        break;
      case RecipeStep::Kind::free:
        if (keeps && step.place == recipe.input())
          kept_.push_back(storages[step.place]);
        else
          builder_.free(storages[step.place]);
        break;
      case RecipeStep::Kind::launch:
        begin();
        begun = false;
        launch(pass.ops[op++]);
        break;
      case RecipeStep::Kind::grad_ready:
        strategy.gradient_ready(module, step.place, at(stamp, recipe.first_gradient + step.place));
        break;
    }
  }
  if (hooks && op > 0) strategy.after_op(module, pass.ops[op - 1].phase, op - 1);
}

bool ModuleWriter::keeps_input(std::uint32_t module) const {
  return module < kept_gradients_.size() && kept_gradients_[module].storage;
}

void ModuleWriter::keep_input(std::uint32_t module) {
  kept_gradients_.resize(stamps_.size());
  const Tape& tape = lowering_.tape_of(module);
  const Value& input = tape.values[storage_of(tape, tape.input)];
  kept_gradients_[module] = lowering_.buffer(
      input.bytes / size_of(input.dtype), input.dtype, "gradient of the input", Cause::activation,
      lowering_.owners[lowering_.layout.unit_of_module[module]]);
}

// The gradient of the next module's input was this one's.
void ModuleWriter::keep_gradient(std::uint32_t module) {
  if (!keeps_input(module + 1)) return;
  lowering_.alloc(kept_gradients_[module + 1], lowering_.compute);
  kept_.push_back(kept_gradients_[module + 1].storage);
}

void ModuleWriter::free_kept() {
  for (const StorageId storage : kept_) builder_.free(storage);
  kept_.clear();
}

// A compiler plans the recomputation into its graphs: then there are no hooks.
Ns ModuleWriter::host_time(std::uint32_t module, bool is_forward) const {
  using namespace host_overhead;
  const Module& what = lowering_.model.modules[module];
  const Compile compile = lowering_.workload.train.compile;
  if (compile == Compile::per_block && what.is_block)
    return is_forward ? kCompiledForward : kCompiledBackward;
  const SavePolicy kept = policy(module);
  if (compile != Compile::none || kept == SavePolicy::none) return 0;
  const auto ops = static_cast<Ns>(recipes_[stamps_[module].recipe].forward.ops.size());
  if (!is_forward) return ops * kRecomputedOp;
  return ops * (kept == SavePolicy::selective_op ? kSelectedOp : kCheckpointedOp);
}

void ModuleWriter::forward(std::uint32_t module, StrategySchedule& strategy) {
  if (const Ns time = host_time(module, true); time > 0) builder_.host_delay(time);
  append_pass(module, recipes_[stamps_[module].recipe].forward, strategy);
}

void ModuleWriter::backward(std::uint32_t module, StrategySchedule& strategy) {
  if (const Ns time = host_time(module, false); time > 0) builder_.host_delay(time);
  append_pass(module, recipes_[stamps_[module].recipe].backward, strategy);
  keep_gradient(module);
}

void ModuleWriter::reserve(std::size_t steps) {
  std::size_t ops = 0, accesses = 0, forward = 0, backward = 0, recomputed = 0;
  for (const Stamp& stamp : stamps_) {
    const Recipe& recipe = recipes_[stamp.recipe];
    forward += recipe.forward.steps.size();
    backward += recipe.backward.steps.size();
    ops += recipe.forward.ops.size() + recipe.backward.ops.size();
    accesses += recipe.forward.accesses.size() + recipe.backward.accesses.size();
    recomputed += recipe.backward.ops.size();
  }
  // Each parameter is copied, gathered, reduced, added, and optimized in some ten ops.
  const std::size_t parameters = lowering_.layout.parameters.size();
  const std::size_t units = lowering_.layout.units.size();
  Graph& graph = builder_.graph();
  graph.ops.reserve(steps * (ops + 40 * units + 4 * parameters) + 8 * parameters);
  graph.accesses.reserve(steps * (accesses + 40 * units + 16 * parameters) + 32 * parameters);
  graph.op_lists.reserve(steps * recomputed);
  for (const Section section : {Section::first, Section::body}) {
    std::vector<HostThread>& threads = graph.programs.back().threads;
    const auto list = static_cast<std::size_t>(section);
    threads[lowering_.main_thread].sections[list].reserve(
        steps * (forward + 40 * units + 8 * parameters) + 16 * parameters);
    threads[lowering_.autograd_thread].sections[list].reserve(
        steps * (backward + 40 * units + 8 * parameters));
  }
}

}  // namespace foregather::plan
