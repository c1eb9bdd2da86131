#include "core/plan/workload_setters.h"

#include <algorithm>

#include "core/ir/references.h"
#include "core/plan/block_ranges.h"

namespace foregather::plan {

using namespace std::string_view_literals;

namespace {

struct Precision {
  DType master;
  DType compute;
};
constexpr std::array kPrecisionNames{"bf16-mixed"sv, "bf16"sv, "fp32"sv, "fp16-mixed"sv};
constexpr std::array kPrecisions{
    Precision{DType::f32, DType::bf16}, Precision{DType::bf16, DType::bf16},
    Precision{DType::f32, DType::f32}, Precision{DType::f32, DType::f16}};

// Names of the enumerators, in the order of the enum.
constexpr std::array kTreeLoss{"sum"sv, "mean"sv, "cross_entropy"sv};

}  // namespace

Status set_precision(Workload& workload, const KeyValue& value) {
  return to_choice(value, kPrecisionNames).map([&](std::size_t choice) {
    workload.train.master = kPrecisions[choice].master;
    workload.train.compute = kPrecisions[choice].compute;
  });
}

Status set_checkpointing(Workload& workload, const KeyValue& value) {
  constexpr auto kEvery = "selective:"sv;
  const auto* text = std::get_if<std::string>(&value.content);
  if (text != nullptr && text->starts_with(kEvery)) {
    const KeyValue number{text->substr(kEvery.size()), true};
    const auto every = to_integer(number, 1, kMostBlocks);
    if (!every) return tl::unexpected(every.error());
    workload.train.checkpointing = Checkpointing::selective_layers;
    workload.train.checkpoint_every = *every;
    return {};
  }
  constexpr auto kFirst = "first:"sv;
  if (text != nullptr && text->starts_with(kFirst)) {
    const auto first = to_integer({text->substr(kFirst.size()), true}, 1, kMostBlocks);
    if (!first) return tl::unexpected(first.error());
    workload.train.checkpointing = Checkpointing::first_layers;
    workload.train.checkpoint_first = *first;
    return {};
  }
  constexpr auto kBlocks = "blocks:"sv;
  if (text != nullptr && text->starts_with(kBlocks) && *text != "blocks:LIST") {
    auto blocks = read_block_ranges(std::string_view(*text).substr(kBlocks.size()));
    if (!blocks) return tl::unexpected(blocks.error());
    workload.train.checkpointing = Checkpointing::named_layers;
    workload.train.checkpoint_blocks = std::move(*blocks);
    return {};
  }
  constexpr std::array kNames{"none"sv,        "full"sv,    "selective"sv,
                              "selective:N"sv, "first:N"sv, "blocks:LIST"sv};
  return to_choice(value, kNames).and_then([&](std::size_t choice) -> Status {
    if (choice == 3) return fail("'selective:N' needs a number for N, for example 'selective:2'");
    if (choice == 4) return fail("'first:N' needs a number for N, for example 'first:5'");
    if (choice == 5) return fail("'blocks:LIST' needs blocks, for example 'blocks:0-3,7'");
    workload.train.checkpointing = static_cast<Checkpointing>(choice);
    return {};
  });
}

// A tree is read from the file by module_tree_toml.h.
Status set_tree(Workload& /*workload*/, const KeyValue& value) {
  return fail("{} is not a list of modules, expected it in the workload's file", written(value));
}

Status set_tree_loss(Workload& workload, const KeyValue& value) {
  return to_choice(value, kTreeLoss).map([&](std::size_t choice) {
    workload.tree_loss = static_cast<TreeLoss>(choice);
  });
}

Status set_target_len(Workload& workload, const KeyValue& value) {
  return to_integer(value, 1, 1 << 24).map([&](std::int64_t length) {
    workload.target_len = length;
  });
}

// "all", "lora", or parts of parameter names.
Status set_trainable(Workload& workload, const KeyValue& value) {
  return to_list(value).and_then([&](const std::vector<std::string>& names) -> Status {
    Trainable& trainable = workload.train.trainable;
    if (names.empty() || std::find(names.begin(), names.end(), "") != names.end())
      return fail("{} is not all, lora or parts of parameter names", written(value));
    const bool is_one = names.size() == 1;
    trainable.kind = is_one && names[0] == "all"    ? Trainable::Kind::all
                     : is_one && names[0] == "lora" ? Trainable::Kind::lora
                                                    : Trainable::Kind::named;
    if (trainable.kind == Trainable::Kind::named) trainable.names = names;
    return {};
  });
}

Status set_lora_targets(Workload& workload, const KeyValue& value) {
  return to_list(value).and_then([&](const std::vector<std::string>& names) -> Status {
    if (names.empty() || std::find(names.begin(), names.end(), "") != names.end())
      return fail("{} is not a list of module names", written(value));
    workload.train.trainable.targets = names;
    return {};
  });
}

Status set_lora_rank(Workload& workload, const KeyValue& value) {
  return to_integer(value, 1, 65'536).map([&](std::int64_t rank) {
    workload.train.trainable.rank = rank;
  });
}

Status set_lora_dropout(Workload& workload, const KeyValue& value) {
  return to_number(value, 0, 0.999).map([&](double rate) {
    workload.train.trainable.dropout = rate;
  });
}

Status set_lora_fp32(Workload& workload, const KeyValue& value) {
  return to_bool(value).map([&](bool wide) { workload.train.trainable.wide_adapters = wide; });
}

Status set_lora_autocast(Workload& workload, const KeyValue& value) {
  return to_bool(value).map([&](bool on) { workload.train.trainable.autocasts_adapters = on; });
}

Status set_reshard(Workload& workload, const KeyValue& value) {
  if (const auto flag = to_bool(value)) {
    workload.parallel.reshard_after_forward = *flag;
    workload.parallel.reshard_to = 0;
    return {};
  }
  const auto size = to_integer(value, 2, kMostRanks);
  if (!size) return fail("{} is not true, false or a group size from 2", written(value));
  workload.parallel.reshard_after_forward = true;
  workload.parallel.reshard_to = static_cast<std::uint32_t>(*size);
  return {};
}

Status set_scale(Workload& workload, const KeyValue& value) {
  return to_number(value, 1e-6, 1e6).map([&](double scale) {
    workload.cluster.link_bandwidth_scale = scale;
  });
}

Status set_attention_speed(Workload& workload, const KeyValue& value) {
  return to_number(value, 0.01, 100).map([&](double speed) {
    workload.train.attention_speed = speed;
  });
}

Status set_momentum(Workload& workload, const KeyValue& value) {
  return to_number(value, 0, 1).map([&](double momentum) { workload.train.momentum = momentum; });
}

std::string resolved_path(const Workload& workload, const KeyValue& value,
                          const std::string& path) {
  const auto slash = workload.path.rfind('/');
  if (value.is_text || path.starts_with('/') || slash == std::string::npos) return path;
  return workload.path.substr(0, slash + 1) + path;
}

Status set_config(Workload& workload, const KeyValue& value) {
  return to_text(value).and_then([&](const std::string& path) -> Status {
    if (path.empty()) return fail("the path of a config.json is empty");
    workload.model_config = resolved_path(workload, value, path);
    return {};
  });
}

// One number is the (last) tower's, a list names all towers.
Status set_layers(Workload& workload, const KeyValue& value) {
  const std::string* text = value.is_text ? std::get_if<std::string>(&value.content) : nullptr;
  const bool is_list = std::holds_alternative<std::vector<std::string>>(value.content) ||
                       (text != nullptr && text->find_first_of(",[") != std::string::npos);
  if (!is_list)
    return to_integer(value, 1, kMostBlocks).map([&](std::int64_t layers) {
      workload.layers = layers;
      workload.tower_layers.clear();
    });
  return to_list(value).and_then([&](const std::vector<std::string>& numbers) -> Status {
    if (numbers.empty()) return fail("the list is empty, expected a number for each tower");
    std::vector<std::int64_t> layers;
    for (const std::string& written_number : numbers) {
      const auto number = to_integer({written_number, true}, 1, kMostBlocks);
      if (!number) return tl::unexpected(number.error());
      layers.push_back(*number);
    }
    workload.tower_layers = std::move(layers);
    workload.layers = 0;
    return {};
  });
}

Status set_towers(Workload& workload, const KeyValue& value) {
  return to_list(value).and_then([&](const std::vector<std::string>& paths) -> Status {
    workload.towers.clear();
    if (paths.empty()) return fail("the list is empty, expected paths of config.json files");
    for (const std::string& path : paths) {
      if (path.empty()) return fail("the path of a config.json is empty");
      workload.towers.push_back(resolved_path(workload, value, path));
    }
    return {};
  });
}

Status set_fabric_gbps(Workload& workload, const KeyValue& value) {
  return to_number(value, 0.1, 1e5).map([&](double gbps) { workload.cluster.fabric_gbps = gbps; });
}

Status set_allocator_conf(Workload& workload, const KeyValue& value) {
  return to_text(value).map([&](const std::string& conf) { workload.allocator_conf = conf; });
}

Status set_overlap_comm(Workload& workload, const KeyValue& value) {
  return to_bool(value).map([&](bool flag) { workload.zero.overlap_comm = flag; });
}

}  // namespace foregather::plan
