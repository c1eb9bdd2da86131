#include "tasks/workload_source.h"

#include <algorithm>
#include <array>

#include "core/base/text.h"
#include "core/plan/lower.h"
#include "core/plan/model_left_out.h"
#include "core/plan/workload_keys.h"
#include "core/plan/workload_toml.h"
#include "core/plan/workload_warnings.h"
#include "tasks/machine.h"

namespace foregather::tasks {
namespace {

// Each op of each micro-batch has a row: what a prediction costs is linear in them.
Status check_step_size(const plan::Model& model, const plan::Workload& workload) {
  constexpr double kMostOps = 1e7;
  double ops = 0;
  for (const plan::Module& module : model.modules) {
    const plan::Tape& tape = model.tapes[module.tape];
    ops += static_cast<double>(tape.forward.size() + tape.backward.size());
  }
  ops *= static_cast<double>(workload.train.grad_accum);
  if (ops <= kMostOps) return {};
  return fail_at(workload.place_of({"train.grad_accum", "model.layers"}),
                 "a step of about {:.0f} million ops, expected at most {:.0f} million: lower "
                 "model.layers or train.grad_accum",
                 ops / 1e6, kMostOps / 1e6);
}

plan::Implementation implementation_of(const plan::Train& train, const sim::Hardware& hardware) {
  plan::Implementation implementation;
  implementation.flash_attention = has_flash_attention(hardware);
  implementation.workspace = static_cast<Bytes>(hardware.memory.workspace);
  implementation.fused_rms_norm = train.fused_rms_norm;
  implementation.repeat_kv = train.repeat_kv;
  if (train.complex_rotary) implementation.rotary = plan::Implementation::Rotary::complex;
  return implementation;
}

// What read_model() looks at, for models that are no trees.
std::string model_key(const plan::Workload& workload) {
  std::string key = fmt::format("{}\n{}\n", workload.model_config, workload.layers);
  for (const std::int64_t layers : workload.tower_layers) key += fmt::format("{} ", layers);
  for (const std::string& path : workload.towers) key += fmt::format("\n{}", path);
  for (const plan::ModelKey& own : workload.model_keys)
    key += fmt::format("\n{}={} {}", own.name, own.json, own.place);
  return key;
}

template <class Part, class Read>
Result<std::shared_ptr<const Part>> kept(std::mutex& mutex,
                                         std::map<std::string, std::shared_ptr<const Part>>& parts,
                                         const std::string& key, const Read& read) {
  {
    const std::lock_guard lock(mutex);
    if (const auto found = parts.find(key); found != parts.end()) return found->second;
  }
  auto part = read();
  if (!part) return tl::unexpected(part.error());
  const std::lock_guard lock(mutex);
  return parts.try_emplace(key, std::make_shared<const Part>(std::move(*part))).first->second;
}

}  // namespace

// An error whose place is a key, at the place of that key.
tl::unexpected<Error> at_key(const plan::Workload& workload, Error error) {
  if (const plan::WorkloadKey* key = plan::find_workload_key(error.place); key != nullptr)
    error.place = workload.place_of({key->name});
  return tl::unexpected(std::move(error));
}

Result<std::shared_ptr<const plan::ModelConfig>> KeptParts::model(const plan::Workload& workload) {
  if (!workload.tree)
    return kept(mutex_, models_, model_key(workload), [&] { return plan::read_model(workload); });
  auto config = plan::read_model(workload);
  if (!config) return tl::unexpected(config.error());
  return std::make_shared<const plan::ModelConfig>(std::move(*config));
}

Result<std::shared_ptr<const sim::Hardware>> KeptParts::machine(const plan::Cluster& cluster) {
  const std::string key =
      fmt::format("{}\n{}\n{}\n{}\n{}", cluster.hardware, cluster.topology, cluster.fabric,
                  cluster.fabric_gbps, cluster.gpus_per_node == 1);
  return kept(mutex_, machines_, key, [&] { return load_machine(cluster); });
}

bool is_price_key(std::string_view key) {
  constexpr std::array<std::string_view, 9> kKeys{
      "cluster.hardware",    "cluster.hw",
      "cluster.topology",    "cluster.fabric",
      "cluster.fabric_gbps", "cluster.link_bandwidth_scale",
      "cluster.contention",  "train.attention_speed",
      "allocator.conf"};
  return std::ranges::find(kKeys, key) != kKeys.end();
}

Result<ReadWorkload> read_workload_source(const std::string& text, const std::string& source,
                                          const std::vector<std::string>& sets, KeptParts& parts) {
  if (std::ssize(text) > plan::kWorkloadFileLimit)
    return fail_at(source, "is {} long, expected a workload of at most {}",
                   format_bytes(std::ssize(text)), format_bytes(plan::kWorkloadFileLimit));
  auto workload = plan::parse_workload(text, source, sets);
  if (!workload) return tl::unexpected(workload.error());
  ReadWorkload read;
  read.workload = std::move(*workload);
  auto model = parts.model(read.workload);
  if (!model) return tl::unexpected(model.error());
  read.model = std::move(*model);
  const plan::Attention asked = read.workload.train.attention;
  if (const Status resolved = plan::resolve_workload(read.workload, *read.model); !resolved)
    return tl::unexpected(resolved.error());
  const plan::Train& train = read.workload.train;
  if (const Status sized = plan::check_model_size(*read.model, train); !sized)
    return at_key(read.workload, sized.error());
  auto hardware = parts.machine(read.workload.cluster);
  if (!hardware) return at_key(read.workload, hardware.error());
  read.hardware = std::move(*hardware);
  if (asked == plan::Attention::sdpa && read.model->sinks && !has_flash_attention(*read.hardware))
    read.workload.train.attention = plan::Attention::eager;
  if (const Status able = check_machine(read.workload, *read.hardware); !able)
    return tl::unexpected(able.error());
  read.implementation = implementation_of(train, *read.hardware);
  read.warnings = read.workload.warnings;
  for (const auto& warnings : {plan::model_key_warnings(read.workload, *read.model),
                               plan::model_warnings(*read.model, train),
                               plan::padding_warnings(read.workload, *read.model),
                               machine_warnings(read.workload, *read.hardware)})
    read.warnings.insert(read.warnings.end(), warnings.begin(), warnings.end());
  return read;
}

Result<Graph> lower_workload(const ReadWorkload& read) {
  const plan::Model model = plan::build_model(*read.model, read.workload, read.implementation);
  if (const Status bounded = check_step_size(model, read.workload); !bounded)
    return tl::unexpected(bounded.error());
  return plan::lower(model, read.workload);
}

}  // namespace foregather::tasks
