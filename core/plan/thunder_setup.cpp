#include <algorithm>
#include <cctype>
#include <string>

#include "core/plan/thunder_schedule.h"

namespace foregather::plan {

namespace {

/// The bucket of a parameter: LAYER is its name without the last piece; BLOCK its name up to the
/// first piece that is a number, all of it if there is none (reference §B.3).
std::string bucket_name(const std::string& name, ThunderBucketing bucketing) {
  if (bucketing == ThunderBucketing::none) return name;
  if (bucketing == ThunderBucketing::layer) return name.substr(0, name.rfind('.'));
  std::size_t begin = 0;
  while (begin < name.size()) {
    const std::size_t end = std::min(name.find('.', begin), name.size());
    const bool is_number =
        end > begin && std::all_of(name.begin() + static_cast<std::ptrdiff_t>(begin),
                                   name.begin() + static_cast<std::ptrdiff_t>(end),
                                   [](unsigned char c) { return std::isdigit(c) != 0; });
    if (is_number) return name.substr(0, end);
    begin = end + 1;
  }
  return name;
}

}  // namespace

ThunderSchedule::ThunderSchedule(Lowering& lowering) : lowering_(lowering) {
  const Workload& workload = lowering.workload;
  type_ = workload.train.compute;
  GraphBuilder& builder = lowering.builder;
  world_ = make_group(builder, "world", workload.parallel.world_size, 1, workload);
  if (world_.ranks > 1) norm_.push_back(world_.communicator);
  nccl_ = builder.stream("nccl");
  Unit row;
  row.scope = lowering.root.scope;
  row.group = world_.group;
  row.parameters = lowering.model.parameters;
  for (const ShardedParameter& parameter : lowering.layout.parameters)
    row.padded_elements += padded_shard_elements(parameter, world_.ranks) * world_.ranks;
  row.stored = row.gathered = row.reduced = type_;
  row.reshard = is_zero3() ? Reshard::after_forward : Reshard::after_backward;
  lowering.owners.assign(lowering.layout.units.size(), {row.scope, builder.unit(row)});
}

bool ThunderSchedule::is_zero3() const {
  return lowering_.workload.parallel.strategy == Strategy::thunder_zero3;
}

void ThunderSchedule::init(ModuleWriter& modules) {
  modules_ = &modules;
  add_parameters();
  add_buckets();
  plan_pass(false);
  plan_pass(true);
}

void ThunderSchedule::add_parameters() {
  const ShardLayout& layout = lowering_.layout;
  const std::int64_t ranks = world_.ranks;
  const bool repeats = lowering_.workload.train.grad_accum > 1;
  for (std::uint32_t row = 0; row < layout.parameters.size(); ++row) {
    const ShardedParameter& sharded = layout.parameters[row];
    Parameter& parameter = parameters_.emplace_back();
    parameter.owner = {modules_->scope(sharded.module), lowering_.owners.front().unit};
    parameter.shard = padded_shard_elements(sharded, ranks);
    const std::string& name = lowering_.tape_of(sharded.module).parameters[sharded.parameter].name;
    const auto add = [&](std::int64_t elements, Cause cause) {
      return lowering_.buffer(elements, type_, name, cause, parameter.owner);
    };
    parameter.part = add(parameter.shard, Cause::parameter_shard);
    parameter.full = add(parameter.shard * ranks, Cause::unsharded_parameter);
    parameter.averaged = add(parameter.shard * ranks, Cause::gradient);
    if (!is_bucketed()) {
      parameter.gradient = add(parameter.shard, Cause::reduced_gradient);
      if (repeats) parameter.added = add(parameter.shard, Cause::reduced_gradient);
    }
    lowering_.alloc(parameter.part, lowering_.compute);
  }
  for (std::uint32_t m = 0; m < lowering_.modules(); ++m)
    for (ParameterIndex p = 0; p < lowering_.tape_of(m).parameters.size(); ++p) {
      Parameter& parameter = parameters_[layout.row_of(m, p)];
      ++parameter.shares;
      modules_->set_parameter(m, p, parameter.full);
    }
}

void ThunderSchedule::add_buckets() {
  const ShardLayout& layout = lowering_.layout;
  std::map<std::string, std::uint32_t> known;
  for (std::uint32_t row = 0; row < parameters_.size(); ++row) {
    const ShardedParameter& sharded = layout.parameters[row];
    if (!sharded.trainable) continue;  // unused: the trace does not have it
    std::string name = lowering_.model.modules[sharded.module].path;
    if (!name.empty()) name += '.';
    name += lowering_.tape_of(sharded.module).parameters[sharded.parameter].name;
    const auto [found, is_new] =
        known.try_emplace(bucket_name(name, lowering_.workload.parallel.thunder_bucketing),
                          static_cast<std::uint32_t>(buckets_.size()));
    if (is_new) buckets_.emplace_back();
    parameters_[row].bucket = found->second;
    buckets_[found->second].rows.push_back(row);
  }
  for (Bucket& bucket : buckets_) add_buffers(bucket);
}

void ThunderSchedule::add_buffers(Bucket& bucket) {
  bucket.was_gathered = lowering_.builder.event();
  const auto optimize = [this](std::uint32_t row, const Buffer& gradient, Bytes offset) {
    const Parameter& parameter = parameters_[row];
    optimized_.push_back({parameter.part, gradient, offset, parameter.shard, parameter.owner});
  };
  if (!is_bucketed()) {
    optimize(bucket.rows.front(), parameters_[bucket.rows.front()].gradient, 0);
    return;
  }
  std::int64_t elements = 0;
  for (const std::uint32_t row : bucket.rows) elements += parameters_[row].shard;
  const Owner& owner = parameters_[bucket.rows.front()].owner;
  const auto add = [&](std::int64_t count, std::string_view name, Cause cause) {
    return lowering_.buffer(count, type_, name, cause, owner);
  };
  const std::int64_t whole = elements * world_.ranks;
  bucket.packed = add(elements, "packed shards", Cause::communication_buffer);
  bucket.gathered = add(whole, "gathered bucket", Cause::communication_buffer);
  bucket.to_reduce = add(whole, "packed gradients", Cause::communication_buffer);
  bucket.reduced = add(elements, "reduced gradients", Cause::reduced_gradient);
  if (lowering_.workload.train.grad_accum > 1)
    bucket.added = add(elements, "reduced gradients", Cause::reduced_gradient);
  Bytes offset = 0;
  for (const std::uint32_t row : bucket.rows) {
    optimize(row, bucket.reduced, offset);
    offset += parameters_[row].part.bytes;
  }
}

// First and last uses of parameters, in the order of the pass. Without re-gathering, what the
// backward uses is not deleted in the forward.
void ThunderSchedule::plan_pass(bool backward) {
  Pass& pass = backward ? backward_ : forward_;
  const auto rows = parameters_.size();
  pass.uses.assign(rows, false);
  std::vector<Place> last(rows);
  std::vector<bool> is_ordered(buckets_.size(), false);
  for (std::uint32_t i = 0; i < lowering_.modules(); ++i) {
    const std::uint32_t m = backward ? lowering_.modules() - 1 - i : i;
    const Recipe& recipe = modules_->recipe(m);
    const RecipePass& ops = backward ? recipe.backward : recipe.forward;
    for (std::uint32_t op = 0; op < ops.ops.size(); ++op) {
      const Range& accesses = ops.ops[op].accesses;
      for (std::uint32_t a = accesses.first; a < accesses.end(); ++a) {
        const std::uint32_t index = ops.accesses[a].place - recipe.parameter(0);
        if (ops.accesses[a].place < recipe.parameter(0) || index >= recipe.parameters) continue;
        const std::uint32_t row = lowering_.layout.row_of(m, index);
        const std::uint32_t bucket = parameters_[row].bucket;
        pass.uses[row] = true;
        last[row] = {m, op};
        if (is_ordered[bucket]) continue;
        is_ordered[bucket] = true;
        pass.order.push_back(bucket);
        pass.first[{m, op}].push_back(bucket);
      }
    }
  }
  for (std::uint32_t row = 0; row < rows; ++row)
    if (pass.uses[row]) pass.last[last[row]].push_back(row);
}

}  // namespace foregather::plan
