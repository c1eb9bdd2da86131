#include "traces/thunder_lowering.h"

#include <algorithm>

#include "core/ir/references.h"
#include "traces/thunder_facts.h"

namespace foregather::traces {
namespace {

// Parameters are called t_0_weight, t_fc1_bias, …; values t12.
bool is_parameter_name(std::string_view name) {
  return name.starts_with("t_") &&
         (name.ends_with("_weight") || name.ends_with("_bias") ||
          name.find_first_not_of("0123456789_", 2) != std::string_view::npos);
}

}  // namespace

ThunderLowering::ThunderLowering(GraphBuilder& builder, const ThunderGraphOptions& options,
                                 std::uint32_t world_size, bool on_host)
    : b_(builder), options_(options), world_size_(world_size), on_host_(on_host) {
  program_ = b_.begin_program("thunder");
  compute_ = b_.stream("compute");
  thread_ = b_.thread("python");
}

// --- parts ---

void ThunderLowering::part(const ThunderPart& part) {
  begin(part);
  scan();
  parameters();
  act(ActionKind::mark, {}, 0, static_cast<std::uint32_t>(part.phase));
  for (std::uint32_t row = function_->statements.first; row < function_->statements.end(); ++row)
    if (file_->statements[row].depth == 0) statement(row);
  finish_part();
}

void ThunderLowering::begin(const ThunderPart& part) {
  part_ = &part;
  file_ = part.file;
  function_ = &file_->functions[part.function];
  is_backward_ = is_thunder_backward(*file_, *function_);
  types_.emplace(*file_, *function_, world_size_);
  bindings_.assign(file_->names.size(), std::nullopt);
  for (std::vector<bool>* flags : {&is_returned_, &is_reduced_, &is_gathered_, &is_saved_})
    flags->assign(file_->names.size(), false);
  packs_.clear();
  collections_.clear();
  groups_.clear();
}

// What becomes of names, before it happens.
void ThunderLowering::scan() {
  if (is_backward_ && saved_ != nullptr) assume_saved();
  types_->infer();
  find_units();
  for (std::uint32_t row = function_->statements.first; row < function_->statements.end(); ++row) {
    const ThunderStatement& statement = file_->statements[row];
    if (statement.depth > 0) continue;
    if (statement.kind == ThunderStatement::Kind::give_back) {
      std::size_t root = 0;
      const auto values = file_->values_of(statement);
      for (std::size_t i = 0; i < values.size(); i += values[i].size, ++root)
        each_name(values[i], [&](ThunderName name) {
          (root == 0 ? is_returned_ : is_saved_)[name.row()] = true;
        });
    }
    const ThunderValue* const node = file_->call_of(statement);
    if (node == nullptr) continue;
    const ThunderCall call(*node);
    const ThunderSymbol symbol = thunder_symbol(call.callee());
    if (symbol.act == Act::pack_bucket && call.at(1) != nullptr &&
        !file_->targets_of(statement).empty())
      packs_.try_emplace(call.at(1)->text, file_->targets_of(statement).front());
    const bool scatters = symbol.act == Act::pack && node->size > 1 && call.at(2) != nullptr &&
                          call.at(2)->text.find("scatter") != std::string_view::npos;
    const bool fills_bucket = symbol.act == Act::same &&
                              call.callee().find("update_bucket_view") != std::string_view::npos;
    if (symbol.act != Act::collective && symbol.act != Act::pack &&
        symbol.act != Act::pack_bucket && !fills_bucket)
      continue;
    const bool gathers =
        symbol.kind == OpKind::all_gather || (symbol.act == Act::pack && !scatters);
    each_name(*node,
              [&](ThunderName name) { (gathers ? is_gathered_ : is_reduced_)[name.row()] = true; });
  }
}

void ThunderLowering::parameters() {
  for (const ThunderParameter& parameter : function_->parameters) {
    if (types_->of(parameter.name) != nullptr) {
      argument(parameter.name);
      continue;
    }
    Collection& collection = collections_[parameter.name.row()];
    collection.is_caller_held = !is_backward_;
    if (is_backward_ && &parameter == &function_->parameters.front()) collection.is = saved_;
  }
}

void ThunderLowering::statement(std::uint32_t row) {
  const ThunderStatement& statement = file_->statements[row];
  switch (statement.kind) {
    case ThunderStatement::Kind::assign:
    case ThunderStatement::Kind::call: return call(row);
    case ThunderStatement::Kind::unpack: return unpack(statement);
    case ThunderStatement::Kind::move: return move(statement);
    case ThunderStatement::Kind::typed_assign:
      for (const ThunderName name : file_->targets_of(statement))
        if (types_->of(name) != nullptr && !bound(name)) argument(name);
      return;
    case ThunderStatement::Kind::del:
      for (const ThunderName name : file_->targets_of(statement)) release(name);
      return;
    case ThunderStatement::Kind::give_back:
      if (part_->phase == Phase::forward) save(statement);
      return;
    case ThunderStatement::Kind::set:
    case ThunderStatement::Kind::other: return;
  }
}

// A forward leaves its results and what it saved, all else goes; a last part leaves all to
// finish().
void ThunderLowering::finish_part() {
  if (part_->phase != Phase::forward) return;
  forward_bindings_ = bindings_;  // also of what only the collection of saved tensors refers to
  for (std::size_t row = 0; row < bindings_.size(); ++row)
    if (bindings_[row] && !is_returned_[row]) release(ThunderName(row));
  forward_file_ = file_;
}

void ThunderLowering::finish() {
  for (std::size_t event = 0; event < is_waited_.size(); ++event) await(EventId(event));
  for (const TensorId tensor : tensors_) release(tensor);
  act(ActionKind::host_wait_device, {}, 0);
  b_.select(thread_, Section::init);
  for (const Action& action : init_) b_.act(action);
  for (const Section section : {Section::first, Section::body}) {
    b_.select(thread_, section);
    for (const Action& action : actions_) b_.act(action);
  }
  b_.end_program();
  std::vector<std::uint32_t> ranks(world_size_);
  for (std::uint32_t i = 0; i < world_size_; ++i) ranks[i] = i;
  RankClass all;
  all.name = b_.graph().strings.intern("all");
  all.program = program_;
  b_.graph().world_size = world_size_;
  b_.rank_class(all, ranks);
}

std::vector<std::string> ThunderLowering::take_warnings() {
  const auto list = [](const auto& names) {
    constexpr std::size_t kShown = 8;
    std::string text;
    std::size_t count = 0;
    for (const auto& name : names) {
      if (count++ == kShown) break;
      text += (text.empty() ? "" : ", ") + std::string(name);
    }
    return names.size() > kShown ? text + ", …" : text;
  };
  if (!unknown_.empty())
    warnings_.push_back(
        fmt::format("{} values have no type that the trace shows or implies, and "
                    "count as 0 bytes: {}",
                    unknown_.size(), list(unknown_)));
  if (!unknown_symbols_.empty())
    warnings_.push_back(
        fmt::format("symbols that are not known are taken as streaming through "
                    "their arguments and results: {}",
                    list(unknown_symbols_)));
  if (!corrected_.empty())
    warnings_.push_back(
        fmt::format("buffers that are printed with another size than what is packed "
                    "into them have the latter: {}",
                    list(corrected_)));
  return std::move(warnings_);
}

// --- names ---

const ThunderBinding* ThunderLowering::bound(ThunderName name) const {
  return name && bindings_[name.row()] ? &*bindings_[name.row()] : nullptr;
}

const ThunderBinding* ThunderLowering::first_bound(const ThunderCall& call) const {
  const Binding* first = nullptr;
  each_name(call.node(), [&](ThunderName name) {
    if (first == nullptr) first = bound(name);
  });
  return first;
}

// A name that is bound anew forgets what it was.
void ThunderLowering::bind(ThunderName name, Binding binding) {
  if (!name) {
    // The result of "_" is gone at once.
    if (binding.tensor && !binding.is_held) release(binding.tensor);
    return;
  }
  release(name);
  bindings_[name.row()] = std::move(binding);
}

void ThunderLowering::release(ThunderName name) {
  const Binding* const binding = bound(name);
  if (binding == nullptr) return;
  // A future that is dropped without a wait must not lose its buffer while it is written.
  if (binding->pending) await(binding->pending);
  if (binding->tensor && !binding->is_held) release(binding->tensor);
  bindings_[name.row()].reset();
}

void ThunderLowering::release(TensorId tensor) {
  if (is_released_[tensor.row()]) return;
  is_released_[tensor.row()] = true;
  act(ActionKind::release, {}, tensor.row());
}

bool ThunderLowering::is_on_device(const ThunderTensorType& type) const {
  return !type.on_host || on_host_;
}

const ThunderTensorType* ThunderLowering::type_or_unknown(ThunderName name) {
  if (!name) return nullptr;
  const ThunderTensorType* const type = types_->of(name);
  if (type == nullptr && !file_->is_described[name.row()] && !is_number_name(file_->text(name)))
    unknown_.insert(std::string(file_->text(name)));
  return type;
}

// A held one is allocated before the first step, another one here.
ThunderBinding ThunderLowering::make(std::string_view name, const ThunderTensorType& type,
                                     Cause cause, bool held) {
  Binding binding = unbound(name, type, cause);
  binding.is_held = held;
  if (!binding.storage) return binding;
  if (!held) tensors_.push_back(binding.tensor);
  const Action alloc{ActionKind::alloc, compute_, binding.storage.row(), 0};
  (held ? init_ : actions_).push_back(alloc);
  if (held) held_bytes_ += b_.graph().at(binding.storage).bytes;
  return binding;
}

// Held by nobody: neither allocated nor released.
ThunderBinding ThunderLowering::unbound(std::string_view name, const ThunderTensorType& type,
                                        Cause cause) {
  Binding binding;
  binding.type = type;
  binding.type.is_future = false;
  binding.layout = ThunderLayout::dense(type.dims);
  binding.is_held = true;
  const Bytes bytes = bytes_of(type).value_or(0);
  if (bytes == 0 || !is_on_device(type)) return binding;
  Storage storage;
  storage.bytes = bytes;
  storage.name = b_.graph().strings.intern(name);
  storage.cause = cause;
  binding.storage = b_.storage(storage);
  binding.tensor = tensor_row(binding);
  return binding;
}

// A tensor of the storage that is the binding's own reference to it.
TensorId ThunderLowering::tensor_row(const Binding& binding) {
  const Bytes whole = b_.graph().at(binding.storage).bytes;
  const Bytes bytes = bytes_of(binding.type).value_or(0);
  const std::int64_t bits = binding.type.dtype.bits;
  const bool is_plain = size_of(binding.type.dtype.type) * 8 == bits && binding.layout.is_dense();
  const Bytes offset = is_plain ? binding.layout.offset * bits / 8 : 0;
  TensorId tensor;
  if (is_plain && offset >= 0 && offset <= whole - bytes)
    tensor = b_.tensor(binding.storage, binding.type.dtype.type, binding.type.dims, offset);
  else
    tensor = b_.whole(binding.storage);
  is_released_.resize(tensor.row() + 1);
  if (!binding.is_held) tensors_.push_back(tensor);
  return tensor;
}

ThunderBinding ThunderLowering::view(const Binding& of, const ThunderTensorType& type,
                                     ThunderLayout layout) {
  // Only a wait may look at a future; what does so nevertheless waits.
  if (of.pending) await(of.pending);
  Binding binding = of;
  binding.type = type;
  binding.type.is_future = false;
  binding.layout = std::move(layout);
  binding.pending = {};
  if (binding.storage) binding.tensor = tensor_row(binding);
  return binding;
}

// "t_layers_0_fc1_weight" belongs to layers_0_fc1.
ScopeId ThunderLowering::scope_of_parameter(std::string_view name) {
  if (name.starts_with("t_")) name.remove_prefix(2);
  const auto last = name.rfind('_');
  return b_.scope(last == std::string_view::npos ? name : name.substr(0, last));
}

// Of the function: the caller holds it.
void ThunderLowering::argument(ThunderName name) {
  const std::string_view text = file_->text(name);
  const bool is_parameter = is_parameter_name(text) || is_gathered_[name.row()];
  Binding binding = make(text, *types_->of(name),
                         is_parameter ? Cause::parameter_shard : Cause::activation, true);
  if (is_parameter) {
    binding.scope = scope_of_parameter(text);
    const std::int64_t count = elements(binding.type.dims).value_or(0);
    const std::int64_t copies = is_gathered_[name.row()] ? world_size_ : 1;
    std::int64_t& all = b_.graph().parameters;
    std::int64_t more = 0;
    if (__builtin_mul_overflow(count, copies, &more) || __builtin_add_overflow(all, more, &all))
      all = kMostWork;
    all = std::min(all, kMostWork);
  }
  bind(name, std::move(binding));
}

// Into a backward without its forward.
void ThunderLowering::incoming(ThunderName name, Cause cause) {
  if (is_parameter_name(file_->text(name)) || is_gathered_[name.row()]) return argument(name);
  bind(name, make(file_->text(name), *types_->of(name), cause));
}

Cause ThunderLowering::cause_of(ThunderName name, const ThunderSymbol& symbol) const {
  if (symbol.kind == OpKind::all_gather) return Cause::unsharded_parameter;
  if (symbol.kind == OpKind::reduce_scatter || symbol.kind == OpKind::all_reduce)
    return Cause::reduced_gradient;
  if (symbol.act == Act::pack) return Cause::communication_buffer;
  if (name && is_reduced_[name.row()]) return Cause::gradient;
  if (part_->phase == Phase::backward)
    return name && is_returned_[name.row()] ? Cause::gradient : Cause::temporary;
  if (name && (is_saved_[name.row()] || is_returned_[name.row()])) return Cause::activation;
  return symbol.kind == OpKind::cast ? Cause::cast_copy : Cause::temporary;
}

}  // namespace foregather::traces
