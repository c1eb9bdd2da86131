#include <algorithm>

#include "core/ir/references.h"
#include "traces/thunder_lowering.h"

namespace foregather::traces {
namespace {

// Flags among a call's arguments: async first, then skip_clone.
bool flag(const ThunderCall& call, std::size_t which, bool otherwise) {
  for (std::size_t i = 0; i < call.count(); ++i) {
    const std::string_view text = call.at(i)->text;
    if (text != "True" && text != "False") continue;
    if (which-- == 0) return text == "True";
  }
  return otherwise;
}

bool says(const ThunderValue* value, std::string_view part) {
  return value != nullptr && value->text.find(part) != std::string_view::npos;
}

}  // namespace

// --- communication ---

// Of the process group that the call names; streams and communicators are made as groups appear.
// The numbers in their names count a trace's objects: the first group of one trace is the first of
// the other.
ThunderLowering::Channel& ThunderLowering::channel(const ThunderCall& call) {
  std::string_view name;
  for (std::uint32_t i = 1; i < call.node().size && name.empty(); ++i) {
    const ThunderValue& value = *(&call.node() + i);
    if (value.kind == ThunderValue::Kind::name &&
        value.text.find("ProcessGroup") != std::string_view::npos)
      name = value.text;
  }
  auto found = std::find(groups_.begin(), groups_.end(), name);
  const auto index = static_cast<std::size_t>(found - groups_.begin());
  constexpr std::size_t kMostGroups = 200;
  if (found == groups_.end() && groups_.size() < kMostGroups) groups_.push_back(name);
  return channel(std::min(index, kMostGroups - 1));
}

ThunderLowering::Channel& ThunderLowering::channel(std::size_t at) {
  while (channels_.size() <= at) {
    std::vector<std::uint32_t> ranks(world_size_);
    for (std::uint32_t i = 0; i < world_size_; ++i) ranks[i] = i;
    const std::string label = channels_.empty() ? "" : std::to_string(channels_.size());
    const std::uint32_t per_node = std::max(options_.gpus_per_node, 1U);
    Channel made;
    made.group = b_.group("group" + label, ranks, (world_size_ + per_node - 1) / per_node);
    made.communicator = b_.communicator("group" + label, made.group);
    made.stream = b_.stream("nccl" + label);
    channels_.push_back(made);
  }
  return channels_[at];
}

// The shards that are gathered together.
UnitId ThunderLowering::unit_of(const Binding& shard, const Binding& full) {
  if (!shard.storage) return {};
  const auto [found, is_new] = units_.try_emplace(shard.storage.row());
  if (!is_new) return found->second;
  Unit unit;
  unit.scope = shard.scope;
  unit.group = channel(std::size_t{0}).group;
  unit.parameters = unit.padded_elements =
      std::min(elements(full.type.dims).value_or(0), kMostWork);
  unit.stored = unit.gathered = unit.reduced = full.type.dtype.type;
  // Nothing to gather: replicated.
  unit.reshard = shard.type.dims == full.type.dims ? Reshard::never : Reshard::after_forward;
  found->second = b_.unit(unit);
  return found->second;
}

void ThunderLowering::await(EventId event) {
  if (is_waited_[event.row()]) return;
  is_waited_[event.row()] = true;
  act(ActionKind::wait, compute_, event.row());
}

void ThunderLowering::collective(std::uint32_t row, const ThunderCall& call,
                                 const ThunderSymbol& symbol) {
  const auto targets = file_->targets_of(file_->statements[row]);
  const Binding* const from = bound(call.name(0));
  const ThunderName target = targets.empty() ? ThunderName() : targets.front();
  const ThunderTensorType* type = type_or_unknown(target);
  if (type == nullptr && from != nullptr) type = types_->of(call.name(0));
  const auto real = from != nullptr ? corrected(*from, symbol.kind) : std::nullopt;
  if (real) type = &*real;
  const std::string_view name = last_component(call.callee());
  const bool is_sync = name.starts_with("synchronize");
  const std::int64_t in = from != nullptr ? elements(from->type.dims).value_or(0) : 0;
  const std::int64_t out = type != nullptr ? elements(type->dims).value_or(0) : 0;
  // A replicated parameter is what it was.
  if (is_sync && in == out && symbol.kind == OpKind::all_gather && from != nullptr)
    return bind(target, view(Binding(*from), *type, from->layout));
  OpKind kind = symbol.kind;
  if (is_sync && kind == OpKind::all_reduce && out > in) kind = OpKind::all_gather;

  const Binding source = from != nullptr ? *from : Binding();
  const bool resizes = kind == OpKind::all_gather || kind == OpKind::reduce_scatter;
  const bool in_place =
      !resizes && name.find("all_reduce") != std::string_view::npos && flag(call, 1, false);
  Channel& channel = this->channel(call);
  Binding result;
  if (in_place && source.storage) {
    result = view(source, source.type, source.layout);
  } else if (type != nullptr) {
    result =
        make(file_->text(target), *type, cause_of(target, {Act::collective, symbol.shape, kind}));
    result.scope = source.scope;
    // all_reduce and broadcast work in place on a clone.
    if (!resizes && result.storage && source.storage) launch_copy(&source, result, Role::copy_in);
  }
  result.is_corrected = real.has_value();
  if (kind == OpKind::all_gather) result.unit = unit_of(source, result);
  if (!result.unit) result.unit = source.unit;
  if (!result.unit) result.unit = unit_of_gradient(target);

  Cost cost;
  cost.kind = kind;
  cost.dtype = result.type.dtype.type;
  cost.message_bytes = std::min(
      std::max(bytes_of(source.type).value_or(0), bytes_of(result.type).value_or(0)), kMostBytes);
  if (from == nullptr || type == nullptr) cost.message_bytes = bytes_of(result.type).value_or(0);
  if (from == nullptr && type == nullptr) cost.message_bytes = 0;
  cost.group = channel.group;
  cost.host_ops = static_cast<std::uint16_t>(1 + pending_host_ops_);
  pending_host_ops_ = 0;
  accesses_.clear();
  if (resizes) access(source, Access::read);
  access(result, resizes ? Access::write : Access::accumulate);
  OpSpec spec;
  spec.kind = kind;
  spec.role = kind == OpKind::all_gather ? Role::gather : Role::reduce;
  spec.phase = part_->phase;
  spec.scope = result.scope;
  spec.unit = result.unit;
  spec.stream = channel.stream;
  spec.communicator = channel.communicator;
  spec.cost = b_.cost(cost);
  const EventId ready = b_.event(), done = b_.event();
  act(ActionKind::record, compute_, ready.row());
  act(ActionKind::wait, channel.stream, ready.row());
  const OpId op = b_.op(spec, accesses_);
  act(ActionKind::launch, {}, op.row());
  if (source.storage && !source.is_held && !in_place)
    act(ActionKind::record_stream, channel.stream, source.storage.row());
  act(ActionKind::record, channel.stream, done.row());
  is_waited_.resize(done.row() + 1, true);
  is_waited_[done.row()] = false;
  if (resizes && source.storage) in_flight_.insert_or_assign(source.storage.row(), InFlight{done});
  if (result.storage) in_flight_.insert_or_assign(result.storage.row(), InFlight{done, true});
  if (is_sync || !flag(call, 0, true))
    await(done);
  else
    result.pending = done;
  if (!target) await(done);
  bind(target, std::move(result));
}

void ThunderLowering::wait(std::uint32_t row, const ThunderCall& call) {
  const Binding* const future = bound(call.name(0));
  const auto targets = file_->targets_of(file_->statements[row]);
  if (future == nullptr) {
    for (const ThunderName target : targets) type_or_unknown(target);
    return;
  }
  const Binding of = *future;
  if (of.pending) await(of.pending);
  // The future itself has nothing left to wait for.
  bindings_[call.name(0).row()]->pending = {};
  if (targets.empty() || !targets.front()) return;
  const ThunderTensorType* const type = of.is_corrected ? nullptr : types_->of(targets.front());
  bind(targets.front(), view(of, type != nullptr ? *type : of.type, of.layout));
}

// What becomes of a buffer that was printed wrongly.
std::optional<ThunderTensorType> ThunderLowering::corrected(const Binding& source,
                                                            OpKind kind) const {
  if (!source.is_corrected || source.type.dims.size() != 1) return std::nullopt;
  ThunderTensorType type = source.type;
  std::int64_t& count = type.dims.front();
  if (kind == OpKind::all_gather && __builtin_mul_overflow(count, world_size_, &count))
    return std::nullopt;
  if (kind == OpKind::reduce_scatter) count /= world_size_;
  if (!bytes_of(type)) return std::nullopt;
  return type;
}

// --- buckets ---

// Elements of what a call packs; nothing if one of it is unknown.
std::optional<std::int64_t> ThunderLowering::packed_elements(const ThunderCall& call) const {
  if (call.at(0) == nullptr) return std::nullopt;
  std::int64_t sum = 0;
  bool all = true;
  each_child(*call.at(0), [&](const ThunderValue& part) {
    const Binding* const binding =
        part.kind == ThunderValue::Kind::name ? bound(part.name) : nullptr;
    const auto count = binding != nullptr ? elements(binding->type.dims) : std::nullopt;
    all = all && count && !__builtin_add_overflow(sum, *count, &sum);
  });
  if (!all) return std::nullopt;
  return sum;
}

void ThunderLowering::pack(std::uint32_t row, const ThunderCall& call) {
  const auto targets = file_->targets_of(file_->statements[row]);
  const ThunderTensorType* type = targets.empty() ? nullptr : type_or_unknown(targets.front());
  if (type == nullptr) return;
  // Thunder 0.2.3 prints the buffer of shards with the size of the whole parameters.
  ThunderTensorType real = *type;
  const auto packed = packed_elements(call);
  const bool is_wrong = packed && packed != elements(type->dims);
  if (is_wrong) real.dims = {*packed};
  if (is_wrong && bytes_of(real)) {
    corrected_.insert(std::string(file_->text(targets.front())));
    type = &real;
  }
  Binding made = make(file_->text(targets.front()), *type, Cause::communication_buffer);
  made.is_corrected = type == &real;
  if (const Binding* const first = first_bound(call)) made.scope = first->scope;
  accesses_.clear();
  reads(call);
  access(made, Access::write);
  Cost cost;
  cost.kind = OpKind::copy;
  cost.dtype = type->dtype.type;
  cost.bytes_read = cost.bytes_written = bytes_of(*type).value_or(0);
  // Shards that are packed always the same way are one unit.
  if (const Binding* const first = first_bound(call);
      first != nullptr && first->storage && !says(call.at(2), "scatter")) {
    const auto [found, is_new] = units_.try_emplace(first->storage.row());
    if (is_new) {
      Unit unit;
      unit.scope = first->scope;
      unit.group = channel(std::size_t{0}).group;
      const std::int64_t count = elements(type->dims).value_or(0);
      if (__builtin_mul_overflow(count, std::int64_t{world_size_}, &unit.parameters))
        unit.parameters = kMostWork;
      unit.parameters = std::min(unit.parameters, kMostWork);
      unit.padded_elements = unit.parameters;
      unit.stored = unit.gathered = unit.reduced = type->dtype.type;
      found->second = b_.unit(unit);
    }
    made.unit = found->second;
  }
  if (!made.unit) made.unit = unit_of_gradient(targets.front());
  if (made.unit && made.storage) units_.insert_or_assign(made.storage.row(), made.unit);
  launch_cost(cost, Role::copy_in, &made);
  bind(targets.front(), std::move(made));
}

// gather: copies; scatter: views of the buffer, one behind the other.
void ThunderLowering::unpack_fsdp(std::uint32_t row, const ThunderCall& call) {
  const auto targets = file_->targets_of(file_->statements[row]);
  const Binding* const bound_source = bound(call.name(0));
  if (bound_source == nullptr) {
    for (const ThunderName target : targets) type_or_unknown(target);
    return;
  }
  const Binding source = *bound_source;
  std::vector<const ThunderValue*> donors;
  if (call.at(1) != nullptr)
    each_child(*call.at(1), [&](const ThunderValue& donor) { donors.push_back(&donor); });
  const bool scatters = says(call.at(3), "scatter");
  std::vector<std::pair<ThunderName, Binding>> made;
  std::int64_t start = 0;
  Bytes bytes = 0;
  for (std::size_t i = 0; i < targets.size(); ++i) {
    const ThunderTensorType* const type = type_or_unknown(targets[i]);
    if (type == nullptr) continue;
    if (scatters) {
      ThunderLayout layout = ThunderLayout::dense(type->dims);
      layout.offset = source.layout.offset + start;
      start += elements(type->dims).value_or(0);
      if (targets[i]) bind(targets[i], view(source, *type, std::move(layout)));
      continue;
    }
    Binding binding = make(file_->text(targets[i]), *type, Cause::unsharded_parameter);
    binding.unit = source.unit;
    if (i < donors.size() && donors[i]->kind == ThunderValue::Kind::name)
      if (const Binding* const donor = bound(donors[i]->name)) binding.scope = donor->scope;
    if (binding.storage) bytes += bytes_of(*type).value_or(0);
    made.emplace_back(targets[i], std::move(binding));
  }
  if (scatters) return;
  accesses_.clear();
  access(source, Access::read);
  for (const auto& [name, binding] : made) access(binding, Access::write);
  Cost cost;
  cost.kind = OpKind::copy;
  cost.dtype = source.type.dtype.type;
  cost.bytes_read = cost.bytes_written = std::min(bytes, kMostBytes);
  launch_cost(cost, Role::copy_out, &source);
  for (auto& [name, binding] : made) bind(name, std::move(binding));
}

// A bucket of DDP is there for good.
const ThunderBinding* ThunderLowering::bucket(std::string_view key) {
  const auto found = buckets_.find(key);
  if (found != buckets_.end()) return &found->second;
  const auto packed = packs_.find(key);
  const ThunderTensorType* const type =
      packed != packs_.end() ? types_->of(packed->second) : nullptr;
  if (type == nullptr) return nullptr;
  Binding made = make("bucket", *type, Cause::communication_buffer, true);
  return &buckets_.emplace(std::string(key), std::move(made)).first->second;
}

void ThunderLowering::pack_bucket(std::uint32_t row, const ThunderCall& call) {
  const auto targets = file_->targets_of(file_->statements[row]);
  const Binding* const into = call.at(1) != nullptr ? bucket(call.at(1)->text) : nullptr;
  if (into == nullptr) {
    for (const ThunderName target : targets) type_or_unknown(target);
    return;
  }
  if (!targets.empty()) bind(targets.front(), view(Binding(*into), into->type, into->layout));
}

// The bucket's parts are copied back into the gradients.
void ThunderLowering::unpack_bucket(std::uint32_t row, const ThunderCall& call) {
  const auto targets = file_->targets_of(file_->statements[row]);
  const Binding* const source = bound(call.name(0));
  accesses_.clear();
  if (source != nullptr) access(*source, Access::read);
  std::vector<std::pair<ThunderName, Binding>> made;
  Bytes bytes = 0;
  std::size_t i = 0;
  if (call.at(1) != nullptr)
    each_child(*call.at(1), [&](const ThunderValue& donor) {
      const ThunderName target = i < targets.size() ? targets[i] : ThunderName();
      ++i;
      const Binding* const into =
          donor.kind == ThunderValue::Kind::name ? bound(donor.name) : nullptr;
      if (into == nullptr || !target) return;
      access(*into, Access::write);
      bytes += bytes_of(into->type).value_or(0);
      made.emplace_back(target, *into);
    });
  Cost cost;
  cost.kind = OpKind::copy;
  cost.bytes_read = cost.bytes_written = std::min(bytes, kMostBytes);
  if (source != nullptr) cost.dtype = source->type.dtype.type;
  launch_cost(cost, Role::copy_out, source);
  for (auto& [name, binding] : made) bind(name, view(binding, binding.type, binding.layout));
}

}  // namespace foregather::traces
