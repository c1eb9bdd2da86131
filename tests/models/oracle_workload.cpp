// A case's settings (their meanings: tests/oracles/record_fsdp.py) as a workload.
#include <cstdlib>

#include "core/plan/lower.h"
#include "core/plan/workload_toml.h"
#include "tests/models/oracle.h"

namespace foregather::test {

namespace {

using plan::Parallel;
using plan::Workload;

class Translation {
 public:
  explicit Translation(const RecordedCase& recorded) : recorded_(recorded) {}

  Result<Workload> workload() {
    common();
    const Status status = recorded_.family == "fsdp2"   ? fsdp2()
                          : recorded_.family == "fsdp1" ? fsdp1()
                                                        : ddp();
    if (!status) return tl::unexpected(status.error());
    if (const Status resolved = plan::resolve_workload(workload_, recorded_.config); !resolved)
      return tl::unexpected(resolved.error());
    return workload_;
  }

 private:
  const std::string& at(const char* key) const { return recorded_.settings.at(key); }
  bool is(const char* key, std::string_view value) const { return at(key) == value; }
  std::int64_t number(const char* key) const { return std::stoll(at(key)); }

  static DType dtype(const std::string& name, DType unset) {
    return name == "null" ? unset : *parse<DType>(name);
  }

  void common() {
    plan::Train& train = workload_.train;
    train.micro_batch = recorded_.sequences;
    train.seq_len = recorded_.tokens;
    train.grad_accum = number("grad_accum");
    train.master = DType::f32;
    train.dropout = false;
    train.clip_grad_norm =
        recorded_.settings.contains("clip_grad_norm") && is("clip_grad_norm", "true");
    if (recorded_.settings.contains("activation_checkpointing") &&
        !is("activation_checkpointing", "none"))
      train.checkpointing = plan::Checkpointing::full;
    parallel_.world_size = recorded_.world_size;
    if (recorded_.settings.contains("shard_size") && !is("shard_size", "null"))
      parallel_.shard_size = static_cast<std::uint32_t>(number("shard_size"));
    train.compute = parallel_.param_dtype = parallel_.reduce_dtype = DType::f32;
  }

  Status fsdp2() {
    parallel_.strategy = plan::Strategy::fsdp2;
    if (is("wrap", "block+ends3"))
      return fail("parallel.wrap: the final norm and the vocabulary projection are one unit");
    parallel_.wrap = is("wrap", "block")   ? plan::Wrap::block
                     : is("wrap", "whole") ? plan::Wrap::model
                                           : plan::Wrap::block_embed_head;
    const std::string& reshard = at("reshard_after_forward");
    // The recorder wraps the head with PyTorch's own default, not with torchtitan's.
    if (reshard == "null" && parallel_.wrap == plan::Wrap::block_embed_head) {
      parallel_.reshard_after_forward = true;
    } else if (reshard == "true" || reshard == "false") {
      parallel_.reshard_after_forward = reshard == "true";
    } else if (reshard != "null") {
      parallel_.reshard_after_forward = true;
      parallel_.reshard_to = static_cast<std::uint32_t>(std::stoul(reshard));
    }
    parallel_.forward_prefetch = number("forward_prefetch") > 0;
    if (parallel_.forward_prefetch)
      parallel_.forward_prefetch_depth = static_cast<std::uint32_t>(number("forward_prefetch"));
    // An explicit list of the one unit before is what FSDP2 does by itself.
    if (number("backward_prefetch") > 1)
      parallel_.backward_prefetch_depth = static_cast<std::uint32_t>(number("backward_prefetch"));
    // reduce_dtype unset is the original dtype in 2.15 (the parameters' own: fp32), not
    // param_dtype.
    workload_.train.compute = parallel_.param_dtype = dtype(at("param_dtype"), DType::f32);
    parallel_.reduce_dtype = dtype(at("reduce_dtype"), DType::f32);
    workload_.train.no_sync = is("gradient_sync", "last");
    parallel_.reshard_after_backward = is("reshard_after_backward", "always");
    if (is("unshard_in_backward_ends", "false"))
      return fail("no key leaves a unit sharded in backward");
    // is_last_backward postpones only the waits of the final callback: the recording is that of the
    // same case without it.
    parallel_.reduce_buffers =
        static_cast<std::uint32_t>(number("reduce_scatter_max_input_buffers"));
    parallel_.separate_reduce_communicator = is("separate_reduce_scatter_group", "true");
    return {};
  }

  Status fsdp1() {
    parallel_.strategy = plan::Strategy::fsdp1;
    if (at("wrap").starts_with("size:")) return fail("parallel.wrap has no size-based policy");
    parallel_.wrap = is("wrap", "block") ? plan::Wrap::block : plan::Wrap::model;
    const std::string& sharding = at("sharding_strategy");
    parallel_.sharding = sharding == "NO_SHARD" ? plan::Fsdp1Sharding::no_shard
                         : sharding == "SHARD_GRAD_OP" || sharding == "_HYBRID_SHARD_ZERO2"
                             ? plan::Fsdp1Sharding::shard_grad_op
                             : plan::Fsdp1Sharding::full_shard;
    parallel_.backward_prefetch = is("backward_prefetch", "none")  ? plan::Prefetch::none
                                  : is("backward_prefetch", "pre") ? plan::Prefetch::pre
                                                                   : plan::Prefetch::post;
    parallel_.forward_prefetch = is("forward_prefetch", "true");
    parallel_.limit_all_gathers = is("limit_all_gathers", "true");
    parallel_.use_orig_params = is("use_orig_params", "true");
    parallel_.reentrant_checkpoints = is("activation_checkpointing", "around");
    workload_.train.compute = parallel_.param_dtype = dtype(at("param_dtype"), DType::f32);
    parallel_.reduce_dtype = dtype(at("reduce_dtype"), parallel_.param_dtype);
    workload_.train.no_sync = is("no_sync", "true");
    return {};
  }

  Status ddp() {
    parallel_.strategy = plan::Strategy::ddp;
    constexpr double kMiB = 1 << 20;
    if (!is("bucket_cap_mb", "null"))
      parallel_.first_bucket_bytes = parallel_.bucket_bytes =
          static_cast<Bytes>(std::stod(at("bucket_cap_mb")) * kMiB);
    parallel_.gradient_as_bucket_view = is("gradient_as_bucket_view", "true");
    if (is("static_graph", "true")) return fail("no key declares a static graph to DDP");
    workload_.train.no_sync = is("no_sync", "true");
    return {};
  }

  const RecordedCase& recorded_;
  Workload workload_;
  Parallel& parallel_ = workload_.parallel;
};

}  // namespace

Result<Workload> workload_of(const RecordedCase& recorded) {
  return Translation(recorded).workload();
}

plan::Implementation recorded_implementation() {
  plan::Implementation implementation;
  implementation.fused_rms_norm = false;
  implementation.repeat_kv = true;
  implementation.conv1d = false;
  return implementation;
}

Result<Lowered> lowered(const RecordedCase& recorded) {
  Result<Workload> workload = workload_of(recorded);
  if (!workload) return tl::unexpected(workload.error());
  Lowered result;
  result.workload = *workload;
  result.model =
      plan::build_model(recorded.config, result.workload.train, recorded_implementation());
  Result<Graph> graph = plan::lower(result.model, result.workload);
  if (!graph) return tl::unexpected(graph.error());
  result.graph = std::move(*graph);
  return result;
}

}  // namespace foregather::test
