// From the statements of one traced function to ops and actions. Internal to traces/thunder_graph.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "core/ir/builder.h"
#include "traces/thunder_costs.h"
#include "traces/thunder_graph.h"
#include "traces/thunder_layout.h"
#include "traces/thunder_shapes.h"

namespace foregather::traces {

/// A tensor that a name is bound to.
struct ThunderBinding {
  StorageId storage;  ///< absent: no bytes on the device
  TensorId tensor;    ///< this name's own; released when the name is deleted
  ThunderTensorType type;
  ThunderLayout layout;
  ScopeId scope;  ///< of the parameter that it is, or was gathered from
  UnitId unit;
  EventId pending;            ///< of a future: what a wait waits for
  bool is_held = false;       ///< by the caller: never freed
  bool is_corrected = false;  ///< `type` is not what the trace prints
};

/// Writes one program. Parts are lowered in order; what a forward saves is there for the backward.
class ThunderLowering {
 public:
  ThunderLowering(GraphBuilder& builder, const ThunderGraphOptions& options,
                  std::uint32_t world_size, bool on_host);

  void part(const ThunderPart& part);
  /// Ends the step and the program.
  void finish();

  Bytes held_bytes() const { return held_bytes_; }
  std::vector<std::string> take_warnings();

 private:
  using Act = ThunderAct;
  using Binding = ThunderBinding;

  // --- of a part ---
  void begin(const ThunderPart& part);
  void scan();
  void assume_saved();
  void find_units();
  UnitId unit_of_gradient(ThunderName name) const;
  void parameters();
  void statement(std::uint32_t row);
  void finish_part();

  // --- names ---
  const Binding* bound(ThunderName name) const;
  const Binding* first_bound(const ThunderCall& call) const;
  void bind(ThunderName name, Binding binding);
  void release(ThunderName name);
  void release(TensorId tensor);
  Binding make(std::string_view name, const ThunderTensorType& type, Cause cause,
               bool held = false);
  Binding unbound(std::string_view name, const ThunderTensorType& type, Cause cause);
  Binding view(const Binding& of, const ThunderTensorType& type, ThunderLayout layout);
  TensorId tensor_row(const Binding& binding);
  void argument(ThunderName name);
  void incoming(ThunderName name, Cause cause);
  bool is_on_device(const ThunderTensorType& type) const;
  const ThunderTensorType* type_or_unknown(ThunderName name);
  Cause cause_of(ThunderName name, const ThunderSymbol& symbol) const;
  ScopeId scope_of_parameter(std::string_view name);

  // --- collections ---
  void unpack(const ThunderStatement& statement);
  void move(const ThunderStatement& statement);
  void unpack_item(ThunderName target, ThunderName from, const ThunderValue* is);
  void clear(const ThunderCall& call);
  void save(const ThunderStatement& give_back);

  // --- ops ---
  void call(std::uint32_t row);
  void compute(std::uint32_t row, const ThunderCall& call, const ThunderSymbol& symbol);
  void views(std::uint32_t row, const ThunderCall& call, const ThunderSymbol& symbol);
  void same(std::uint32_t row, const ThunderCall& call, const ThunderSymbol& symbol);
  void collective(std::uint32_t row, const ThunderCall& call, const ThunderSymbol& symbol);
  void wait(std::uint32_t row, const ThunderCall& call);
  void pack(std::uint32_t row, const ThunderCall& call);
  void unpack_fsdp(std::uint32_t row, const ThunderCall& call);
  void pack_bucket(std::uint32_t row, const ThunderCall& call);
  void unpack_bucket(std::uint32_t row, const ThunderCall& call);
  const Binding* bucket(std::string_view key);
  void launch(std::uint32_t row, const ThunderCall& call, Role role,
              const std::vector<std::optional<Binding>>& made = {});
  /// Ops for the sub-symbols of a fusion region that makes `made`, with `flops` in all; none if one
  /// is a product or a collective, or if they do not show how an output is made. `accesses_` is
  /// lost.
  std::vector<OpId> parts_of(std::uint32_t row, const std::vector<std::optional<Binding>>& made,
                             std::int64_t flops);
  void launch_copy(const Binding* from, const Binding& to, Role role);
  void launch_cost(Cost cost, Role role, const Binding* about, std::span<const OpId> parts = {});
  void reads(const ThunderCall& call);
  void access(const Binding& binding, Access mode);
  void await(EventId event);
  struct Channel {
    CommunicatorId communicator;
    GroupId group;
    StreamId stream;
  };
  Channel& channel(const ThunderCall& call);
  Channel& channel(std::size_t at);
  UnitId unit_of(const Binding& shard, const Binding& full);
  std::optional<std::int64_t> packed_elements(const ThunderCall& call) const;
  std::optional<ThunderTensorType> corrected(const Binding& source, OpKind kind) const;

  void act(ActionKind kind, StreamId stream, std::uint32_t a, std::uint32_t b = 0) {
    actions_.push_back({kind, stream, a, b});
  }

  GraphBuilder& b_;
  const ThunderGraphOptions& options_;
  std::uint32_t world_size_;
  bool on_host_;  ///< the trace is one of the CPU throughout
  ProgramId program_;
  StreamId compute_;
  std::uint32_t thread_ = 0;
  std::vector<Action> init_, actions_;
  std::vector<AccessedTensor> accesses_;
  std::vector<TensorId> tensors_;          ///< released or to be
  std::vector<bool> is_released_;          ///< by tensor row
  std::map<std::uint32_t, UnitId> units_;  ///< by the shard's storage
  std::vector<Channel> channels_;
  std::map<std::string, Binding, std::less<>> buckets_;
  /// By row of a storage: the last collective that works on it. A damaged trace may have lost the
  /// wait for it.
  struct InFlight {
    EventId done;
    bool writes = false;
  };
  std::map<std::uint32_t, InFlight> in_flight_;
  std::vector<bool> is_waited_;  ///< by event; those of collectives that are not waited for are not
  Bytes held_bytes_ = 0;
  std::uint16_t pending_host_ops_ = 0;  ///< views since the last op

  // Of the current part.
  const ThunderPart* part_ = nullptr;
  const ThunderFile* file_ = nullptr;
  const ThunderFunction* function_ = nullptr;
  std::optional<ThunderTypes> types_;
  std::vector<std::optional<Binding>> bindings_;  ///< by name
  std::vector<std::string_view> groups_;          ///< names of process groups, as they come
  std::vector<bool> is_returned_, is_reduced_, is_gathered_, is_saved_;
  std::unordered_map<std::string_view, ThunderName> packs_;  ///< by key: what holds the bucket
  bool is_backward_ = false;
  std::vector<UnitId> gradient_units_;  ///< by name: of the parameter whose gradient it becomes
  struct Collection {
    const ThunderValue* is = nullptr;  ///< what the forward returned for it
    bool is_caller_held = true;
    std::vector<TensorId> references;  ///< of the collection to its tensors
  };
  std::unordered_map<std::uint32_t, Collection> collections_;  ///< by name

  // What a forward left to the backward.
  std::vector<std::optional<Binding>> forward_bindings_;
  const ThunderFile* forward_file_ = nullptr;
  const ThunderValue* saved_ = nullptr;
  std::vector<ThunderName> flat_args_;  ///< the forward's arguments, in the order of gradients
  std::map<std::uint32_t, TensorId> saved_references_;  ///< by forward name

  std::set<std::string> unknown_, corrected_;
  std::set<std::string, std::less<>> unknown_symbols_;
  std::vector<std::string> warnings_;
};

}  // namespace foregather::traces
