// Every value of the key columns of a table of measured runs becomes a prediction or a reason.
#include <catch2/catch.hpp>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "tasks/validation/measured.h"
#include "tasks/validation/predict_row.h"
#include "tests/support/skip.h"

using namespace foregather;
using namespace foregather::tasks;
using foregather::test::shared_data;

namespace {

constexpr const char* kTinyRows =
    R"({"family":"llama","hidden_size":256,"num_hidden_layers":4,"num_attention_heads":4,)"
    R"("num_key_value_heads":2,"intermediate_size":512,"vocab_size":1000,)"
    R"("max_position_embeddings":512,"tie_word_embeddings":false})";
constexpr const char* kMpt =
    R"({"family":"mpt","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("num_key_value_heads":4,"intermediate_size":1024,"vocab_size":1000,)"
    R"("max_position_embeddings":512,"tie_word_embeddings":true})";
constexpr const char* kNeox =
    R"({"family":"gpt_neox","hidden_size":256,"num_hidden_layers":2,"num_attention_heads":4,)"
    R"("num_key_value_heads":4,"intermediate_size":1024,"vocab_size":1000,)"
    R"("max_position_embeddings":512,"tie_word_embeddings":false})";

MeasuredRow base() {
  MeasuredRow row;
  row.id = "x";
  row.gpu = "H100-SXM-80GB";
  row.strategy = "fsdp2";
  row.param_dtype = row.compute = "bf16";
  row.reduce_dtype = row.master = "fp32";
  row.checkpointing = row.compile = "none";
  row.attention = "sdpa";
  row.optimizer = "adamw";
  row.memory_metric = "allocated_gib";
  row.memory_when = "steady";
  row.config = kTinyRows;
  row.link = "nvswitch";
  row.fabric = "none";
  row.gpus = 8;
  row.nodes = 1;
  row.micro_batch = 1;
  row.seq_len = 512;
  return row;
}

struct KeyFolder {
  std::filesystem::path path;
  KeyFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "foregather-keys-XXXXXX").string();
    REQUIRE(::mkdtemp(name.data()) != nullptr);
    path = name;
  }
  ~KeyFolder() { std::filesystem::remove_all(path); }
};

struct Column {
  const char* name;
  std::string MeasuredRow::*field;
  std::vector<std::string> expressed;
  std::vector<std::string> named;  ///< as not supported
};

/// As the table's description lists them.
std::vector<Column> columns() {
  return {
      {"strategy_key",
       &MeasuredRow::strategy,
       {"ddp", "single", "fsdp1", "fsdp1_grad_op", "fsdp1_hybrid", "fsdp2", "fsdp2_never",
        "fsdp2_always", "fsdp2_hybrid", "zero2", "zero3", "yafsdp", "thunder_zero2",
        "thunder_zero3", "simplefsdp", "deepcompile", "deepcompile_fused"},
       {"other"}},
      {"param_dtype", &MeasuredRow::param_dtype, {"bf16", "fp16", "fp32", "unknown", ""}, {"fp64"}},
      {"reduce_dtype",
       &MeasuredRow::reduce_dtype,
       {"bf16", "fp16", "fp32", "none", "unknown", ""},
       {"int8"}},
      {"compute",
       &MeasuredRow::compute,
       {"bf16", "fp16", "fp32", "fp8_tensorwise", "fp8_rowwise", "fp8_delayed", "unknown", ""},
       {"fp4", "mxfp8"}},
      {"master", &MeasuredRow::master, {"fp32", "bf16", "unknown", ""}, {"fp64"}},
      {"fp8_all_gather", &MeasuredRow::fp8_all_gather, {"yes", "no", ""}, {}},
      {"ac_key",
       &MeasuredRow::checkpointing,
       {"none", "full", "selective_op", "selective", "selective:2", "first_k:2", "first_k:0",
        "unknown", ""},
       {"sometimes"}},
      {"compile_key",
       &MeasuredRow::compile,
       {"none", "per_block", "full", "thunder", "inductor_parts", "unknown", ""},
       {"tvm"}},
      {"attention",
       &MeasuredRow::attention,
       {"flash", "sdpa", "flex", "eager", "cudnn", "unknown", ""},
       {"ring"}},
      {"optimizer", &MeasuredRow::optimizer, {"adamw", "adamw_fused", "unknown", ""}, {"lion"}},
      {"mem_metric",
       &MeasuredRow::memory_metric,
       {"reserved_gib", "allocated_gib", "unknown", ""},
       {}},
      {"mem_when", &MeasuredRow::memory_when, {"steady", "first", "unknown", ""}, {}},
      {"alloc_conf",
       &MeasuredRow::allocator_conf,
       {"", "expandable_segments:True", "unknown", "None", "default"},
       {"no_such_setting:1"}},
      {"config", &MeasuredRow::config, {kTinyRows, kMpt, kNeox}, {"unknown", "llama9_1b"}},
      {"link",
       &MeasuredRow::link,
       {"nvswitch", "nvlink_mesh", "pcie_p2p", "pcie_host", "unknown"},
       {"string"}},
      {"fabric",
       &MeasuredRow::fabric,
       {"none", "roce_400", "roce_200", "ib_hdr", "ib_ndr", "efa_400x4", "efa_3200", "tcpx",
        "slingshot", "unknown"},
       {"pigeon"}},
  };
}

/// What else a value needs in order to mean something.
MeasuredRow row_with(const Column& column, const std::string& value) {
  MeasuredRow row = base();
  const std::string name = column.name;
  if (name == "param_dtype" && value == "fp32") row.strategy = "fsdp1";
  if (name == "compute" && (value == "fp32" || value == "fp16")) row.param_dtype = value;
  if (name == "fp8_all_gather") row.compute = "fp8_tensorwise";
  if (name == "strategy_key" && value.starts_with("thunder"))
    row.master = row.reduce_dtype = "bf16";
  if (name == "strategy_key" && value == "single") row.gpus = 1;
  if (name == "strategy_key" && value.ends_with("hybrid")) row.gpus = 16, row.nodes = 2;
  if (name == "fabric" && value != "none") row.gpus = 16, row.nodes = 2;
  row.*column.field = value;
  return row;
}

}  // namespace

TEST_CASE("every value of the key columns is predicted or named as not supported") {
  const KeyFolder folder;
  for (const Column& column : columns()) {
    for (const std::string& value : column.expressed) {
      INFO(column.name << " " << value);
      const RowPrediction prediction = predict_row(row_with(column, value), folder.path.string());
      CHECK(prediction.skipped == "");
      CHECK(prediction.step > 0);
    }
    for (const std::string& value : column.named) {
      INFO(column.name << " " << value);
      const RowPrediction prediction = predict_row(row_with(column, value), folder.path.string());
      CHECK_FALSE(prediction.is_predicted());
      const bool is_missing = prediction.skipped.find("not stated") != std::string::npos;
      const std::string word = value.substr(0, value.find_first_of(":_"));
      CHECK((is_missing || prediction.skipped.find(word) != std::string::npos));
    }
  }
}

TEST_CASE("a fused downcast shortens what DeepCompile gathers") {
  const KeyFolder folder;
  MeasuredRow after_gather = base();
  after_gather.strategy = "deepcompile";
  after_gather.param_dtype = "fp32";
  after_gather.link = "pcie_host";
  after_gather.config = "llama3_8b";  // too large to be kept gathered
  after_gather.gpus = 4;
  MeasuredRow before_gather = after_gather;
  before_gather.strategy = "deepcompile_fused";
  before_gather.param_dtype = "bf16";
  const auto step = [&](const MeasuredRow& row) {
    const RowPrediction prediction = predict_row(row, folder.path.string());
    REQUIRE(prediction.skipped == "");
    return static_cast<double>(prediction.step);
  };
  CHECK(step(before_gather) < 0.9 * step(after_gather));
}

TEST_CASE("the degrees of other parallelism are named") {
  const KeyFolder folder;
  for (const auto& [field, name] : std::vector<std::pair<std::int64_t MeasuredRow::*, std::string>>{
           {&MeasuredRow::tensor_parallel, "tensor"},
           {&MeasuredRow::context_parallel, "context"},
           {&MeasuredRow::pipeline_parallel, "pipeline"}}) {
    MeasuredRow row = base();
    row.*field = 2;
    CHECK(predict_row(row, folder.path.string()).skipped.find(name) != std::string::npos);
  }
}

TEST_CASE("the published table has no value that this test does not know") {
  const auto path = shared_data("measured/measured.csv");
  if (!path) FOREGATHER_SKIP("the table of measured runs is absent");
  const auto rows = read_measured(path->string());
  REQUIRE(rows.has_value());
  CHECK(rows->size() > 100);
  for (const Column& column : columns()) {
    if (std::string(column.name) == "config") continue;
    std::set<std::string> known(column.expressed.begin(), column.expressed.end());
    known.insert(column.named.begin(), column.named.end());
    for (const MeasuredRow& row : *rows) {
      std::string value = row.*column.field;
      if (value.starts_with("first_k:")) value = "first_k:2";
      if (value.starts_with("selective:")) value = "selective:2";
      INFO(row.id << " " << column.name << " " << value);
      CHECK(known.count(value) == 1);
    }
  }
}
