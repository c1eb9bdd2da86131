// From tables of published results to predictions and errors.
#include <catch2/catch.hpp>

#include <filesystem>
#include <set>
#include <string>

#include "tasks/validation/bars.h"
#include "tasks/validation/errors.h"
#include "tasks/validation/fit.h"
#include "tasks/validation/gpu_steps.h"
#include "tasks/validation/interconnect.h"
#include "tasks/validation/report.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/row_model.h"
#include "tasks/validation/row_workload.h"
#include "tasks/validation/tables_out.h"
#include "tasks/validation/validate.h"
#include "tests/support/places.h"
#include "tests/unit/validation/measured_table.h"
#include "tests/unit/validation/published_rows.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using Catch::Matchers::Contains;

TEST_CASE("NVLink of a board that has none is left out, and said") {
  MeasuredRow row = example_row();
  row.gpu = "A100-PCIe-80GB";
  row.link = "nvlink_mesh";
  const auto machine = machine_of(row);
  REQUIRE(machine.has_value());
  CHECK(machine->topology.empty());
  CHECK(machine->assumed == "'A100-PCIe-80GB' is taken without NVLink");
  row.gpu = "A100-SXM-80GB";
  CHECK(machine_of(row)->topology == "nvlink_mesh");
}

TEST_CASE("an NVLink domain is one node") {
  CHECK(domains_of("GB200 NVL72", "NVLink5 NVSwitch", 72, 18) == 1);
  CHECK(domains_of("GB200", "MNNVL, 400 Gb/s InfiniBand between racks", 144, 36) == 2);
  CHECK(domains_of("B200", "NVSwitch + InfiniBand", 16, 2) == 2);
  const auto rack = machine_of_interconnect("GB200 NVL72", "NVLink5 NVSwitch", 72, 18);
  REQUIRE(rack.has_value());
  const Folder folder;
  folder.write("t.csv",
               "collective,gpu,interconnect,nranks,nnodes,size_bytes\n"
               "all_gather,GB200 NVL72,NVLink5 NVSwitch,72,18,1073741824\n");
  const auto rows = read_nccl_tables(folder.path.string());
  REQUIRE((rows && rows->size() == 1));
  const NcclRow& row = rows->front();
  CHECK(row.kind == OpKind::all_gather);
  CHECK(row.domains == 1);
  sim::CollectivePricer pricer(*rack, 1.0);
  // Nearly at the 900 GB/s of a GPU's links; adapters move a tenth of that.
  CHECK(predicted_us(row, pricer) < 2500);
}

TEST_CASE("models of rows are Hugging Face configs") {
  CHECK_THAT(model_of("llama3_8b")->json, Contains("\"vocab_size\": 128256"));
  CHECK_THAT(model_of(R"({"family":"mpt","hidden_size":64,"num_hidden_layers":2,)"
                      R"("num_attention_heads":4,"num_key_value_heads":4,)"
                      R"("intermediate_size":256,"vocab_size":100,)"
                      R"("tie_word_embeddings":true,"max_position_embeddings":32})")
                 ->json,
             Contains("\"expansion_ratio\": 4"));
  CHECK_THAT(model_of("llama3_8b")->json, !Contains("fused_qkv"));
  CHECK_THAT(model_of("llama3_8b", true)->json, Contains("\"fused_qkv\": true"));
  CHECK_THAT(model_of("qwen3_14b", true)->json, !Contains("fused_qkv"));
  CHECK_THAT(model_of("unknown").error().text(), Contains("not stated"));
  CHECK_THAT(model_of("llama3_9b").error().text(), Contains("did you mean 'llama3_8b'"));
  CHECK_THAT(model_of("{\"family\":7}").error().text(), Contains("family"));
  CHECK_THAT(model_of("{\"family\":\"llama\",\"hidden_size\":-1}").error().text(),
             Contains("'hidden_size' is no positive integer"));
  CHECK(!model_of("{").has_value());
}

TEST_CASE("names of models are read in any spelling, and configs without what follows") {
  const std::string json = model_of("llama3_8b")->json;
  for (const char* name : {"Llama3_8B", "llama3-8b", "llama-3 8B", "llama3.1_8b", "Llama 3.1 8B"}) {
    INFO(name);
    CHECK(model_of(name)->json == json);
  }
  for (const char* other : {"Qwen3-1.4B", "Llama-27B"}) CHECK_FALSE(model_of(other).has_value());
  CHECK(model_of("DeepSeek-V3-16B")->json == model_of("deepseek_v3_16b")->json);
  CHECK(model_of("TinyLlama 1.1B")->json == model_of("tinyllama_1.1b")->json);
  CHECK_FALSE(model_of("llama3.2_8b").has_value());
  const std::string sizes = R"("hidden_size":64,"num_hidden_layers":2,"num_attention_heads":4,)"
                            R"("intermediate_size":256,"vocab_size":100})";
  const std::string llama = model_of(R"({"family":"Llama",)" + sizes, false, 4096)->json;
  CHECK_THAT(llama, Contains("\"num_key_value_heads\": 4"));
  CHECK_THAT(llama, Contains("\"max_position_embeddings\": 4096"));
  CHECK_THAT(model_of(R"({"family":"mpt",)" + sizes, false, 32)->json,
             Contains("\"max_seq_len\": 32"));
  CHECK_FALSE(model_of(R"({"family":"llama","num_key_value_heads":0,)" + sizes).has_value());
}

TEST_CASE("a checkpointing that is selective without further words is per op") {
  MeasuredRow row = example_row();
  row.checkpointing = "selective";
  const auto workload = workload_of(row);
  REQUIRE(workload.has_value());
  CHECK_THAT(toml_of(*workload, "m.json", false),
             Contains("activation_checkpointing = \"selective\"") &&
                 Contains("# ac_key is selective: per op"));
}

TEST_CASE("the columns of a row become keys of a workload") {
  const auto workload = workload_of(example_row());
  REQUIRE(workload.has_value());
  const std::string toml = toml_of(*workload, "m.json", false);
  for (const char* text :
       {"strategy = \"fsdp1\"", "shard_size = 8", "world_size = 16", "nodes = 2",
        "hardware = \"a100_40_sxm\"", "fabric = \"roce_200\"", "optimizer_impl = \"fused\"",
        "activation_checkpointing = \"none\"", "attention = \"flash\"", "config = \"m.json\""})
    CHECK_THAT(toml, Contains(text));
  CHECK_THAT(toml_of(*workload, "m.json", true), Contains("activation_checkpointing = \"full\""));
}

TEST_CASE("what columns leave open is what their sources do") {
  const auto toml = [](auto change, bool too_large = false) {
    MeasuredRow row = example_row();
    change(row);
    const auto workload = workload_of(row);
    REQUIRE(workload.has_value());
    return toml_of(*workload, "m.json", too_large);
  };
  CHECK_THAT(toml([](MeasuredRow& row) { row.gpu = "V100-SXM2-32GB"; }),
             Contains("attention = \"sdpa\""));
  const auto thunder = [](MeasuredRow& row) {
    row.strategy = "thunder_zero3";
    row.master = "unknown";
  };
  CHECK_THAT(toml(thunder), Contains("precision = \"bf16\""));
  const auto compiled = [](MeasuredRow& row) {
    row.strategy = "deepcompile";
    row.checkpointing = "unknown";
  };
  CHECK_THAT(toml(compiled, true), Contains("activation_checkpointing = \"none\"") &&
                                       Contains("# checkpointing is not stated: none"));
  CHECK_THAT(toml([](MeasuredRow& row) { row.strategy_text = "ZeRO-3 on EPYC"; }),
             Contains("strategy = \"fsdp1\""));
}

TEST_CASE("what cannot be expressed is named") {
  const auto reason = [](auto change) {
    MeasuredRow row = example_row();
    change(row);
    const auto workload = workload_of(row);
    REQUIRE(!workload.has_value());
    return workload.error().text();
  };
  CHECK_THAT(reason([](MeasuredRow& row) { row.tensor_parallel = 2; }), Contains("tensor"));
  CHECK_THAT(reason([](MeasuredRow& row) { row.strategy = "other"; }),
             Contains("strategy_key 'other'"));
  CHECK_THAT(reason([](MeasuredRow& row) { row.strategy_text = "FSDP2 + EP 8"; }),
             Contains("expert parallelism"));
  CHECK_THAT(reason([](MeasuredRow& row) { row.micro_batch.reset(); }), Contains("micro-batch"));
  CHECK_THAT(reason([](MeasuredRow& row) { row.gpu = "TPU v5e"; }), Contains("'TPU v5e'"));
  CHECK_THAT(reason([](MeasuredRow& row) { row.compute = "fp4"; }), Contains("compute 'fp4'"));
}

TEST_CASE("quantiles weigh") {
  CHECK(!weighted_quantile({}, 0.5));
  CHECK(weighted_quantile({{3, 1}, {1, 1}, {2, 1}}, 0.5) == 2.0);
  CHECK(weighted_quantile({{1, 1}, {3, 1}}, 0.5) == 2.0);
  CHECK(weighted_quantile({{1, 0.25}, {2, 0.25}, {3, 0.25}, {4, 0.25}, {9, 1}}, 0.5) == 6.5);
  CHECK(weighted_quantile({{1, 1}, {2, 8}, {3, 1}}, 0.9) == 2.5);
}

TEST_CASE("a table is predicted, with answers and without") {
  const Folder folder;
  ValidateRequest request;
  request.measured =
      folder.write("m.csv", kColumns + line("fsdp2", "one", "0.02,0.5,") +
                                line("other", "two", "0.02,,") + line("fsdp1", "three", ",,"));
  request.predictions = (folder.path / "out.csv").string();
  request.report = (folder.path / "report.md").string();
  const auto validation = validate(request);
  REQUIRE(validation.has_value());
  REQUIRE(validation->rows.size() == 3);
  CHECK(validation->rows[0].time_error().has_value());
  CHECK(validation->rows[0].peak_error().has_value());
  CHECK(validation->rows[0].prediction.fits);
  CHECK(validation->rows[1].prediction.skipped == "strategy_key 'other' cannot be expressed");
  CHECK(!validation->rows[2].time_error());
  CHECK(validation->wrong_fits() == 0);

  const std::string csv = folder.read("out.csv");
  CHECK_THAT(csv, Catch::Matchers::StartsWith("id,step_time_s,peak_mem_gib,fits,skip_reason\n"));
  CHECK_THAT(csv, Contains("\ntwo,,,,strategy_key 'other' cannot be expressed\n"));
  CHECK_THAT(csv, Contains("\nthree,0.0"));
  CHECK_THAT(folder.read("report.md"), Contains("| g | 2/3 |"));
  CHECK_THAT(to_json(*validation), Contains("\"wrong_fit\": 0"));
}

TEST_CASE("rows whose names make one name of a file keep apart") {
  const Folder folder;
  const std::string ids[] = {"row 0", "row_0", "row/0"};
  std::string table = kColumns;
  for (const std::string& id : ids) table += line("fsdp2", id, ",,");
  const auto at = table.rfind(",2,512,");
  table.replace(at, 7, ",4,512,");  // the last one
  ValidateRequest request;
  request.measured = folder.write("m.csv", table);
  request.workloads = (folder.path / "kept").string();
  const auto validation = validate(request);
  if (!validation) FAIL(validation.error().text());
  std::set<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(request.workloads))
    if (entry.path().extension() == ".toml") files.insert(entry.path().string());
  CHECK(files.size() == 3);
  const auto& rows = validation->rows;
  CHECK(rows[0].prediction.allocated == rows[1].prediction.allocated);
  CHECK(rows[0].prediction.allocated < rows[2].prediction.allocated);
}

TEST_CASE("a validation writes over nothing that it reads") {
  const Folder folder;
  ValidateRequest request;
  request.measured = folder.write("m.csv", kColumns + line("fsdp2", "one", ",,"));
  const auto refused = [&] {
    const auto validation = validate(request);
    return validation ? "" : validation.error().text();
  };
  request.predictions = request.measured;
  CHECK(refused() == request.measured + ": is an input, expected another file to write");
  request.predictions = request.report = (folder.path / "out").string();
  CHECK_THAT(refused(), Contains("is to be two outputs"));
  request.report.clear();
  request.nccl_tests = (folder.path / "tables").string();
  std::filesystem::create_directory(request.nccl_tests);
  request.predictions = request.nccl_tests + "/out.csv";
  CHECK_THAT(refused(), Contains("is in the folder of tables that are read"));
  CHECK(std::filesystem::is_empty(request.nccl_tests));
}

TEST_CASE("bars need something to compare with") {
  const Folder folder;
  const auto bars_of = [&](const std::string& rows) {
    ValidateRequest request;
    request.measured = folder.write("m.csv", kColumns + rows);
    const auto validation = validate(request);
    REQUIRE(validation.has_value());
    return bars(*validation);
  };
  const auto of = [](const std::vector<Bar>& bars, const std::string& part) {
    for (const Bar& bar : bars)
      if (bar.text.find(part) != std::string::npos) return bar.holds;
    FAIL("no bar says " << part);
    return std::optional<bool>();
  };
  const auto blank = bars_of(line("fsdp2", "one", ",,"));
  for (const char* part :
       {"median time error", "90th percentile", "median peak error", "worst peak error",
        "of step times", "of peaks", "collectives", "tier B"}) {
    CAPTURE(part);
    CHECK(!of(blank, part));
  }
  CHECK(of(blank, "tier A predicted") == true);
  const auto wrong = bars_of(line("fsdp2", "one", "100,100,") + line("other", "two", ",,"));
  for (const char* part : {"median time error", "90th percentile", "median peak error",
                           "worst peak error", "of step times", "of peaks", "tier A predicted"}) {
    CAPTURE(part);
    CHECK(of(wrong, part) == false);
  }
}

TEST_CASE("a published result that fits and a prediction that does not is a wrong fit") {
  const Folder folder;
  std::string large = line("fsdp2", "one", "0.02,0.5,");
  large.replace(large.find(",2,512,"), 7, ",9000,512,");
  std::string oom = line("fsdp2", "two", ",,OOM");
  const auto validation = validate({.measured = folder.write("m.csv", kColumns + large + oom),
                                    .nccl_tests = {},
                                    .predictions = {},
                                    .report = {},
                                    .gpu_check = {},
                                    .gpu_steps = {},
                                    .workloads = {}});
  REQUIRE(validation.has_value());
  CHECK(!validation->rows[0].prediction.fits);
  CHECK(validation->rows[0].time_error().has_value());
  CHECK(validation->rows[1].prediction.fits);
  CHECK(validation->wrong_fits() == 2);
  const std::string report = report_markdown(*validation, "folder");
  CHECK(report.find("- `one` ran; predicted to take ") != std::string::npos);
  CHECK(report.find("- `two` ran out of memory; predicted to take ") != std::string::npos);
}

TEST_CASE("tables of collectives are predicted") {
  const Folder folder;
  folder.write("t.csv",
               "collective,nranks,nnodes,gpu,interconnect,size_bytes,time_us\n"
               "all_gather,8,1,H100-SXM5-80GB,NVLink4 NVSwitch,1073741824,3000\n"
               "all_gather,8,1,TPU,ICI,1048576,\nfold,8,1,H100,NVLink,8,1\n"
               "all_gather,8,100,H100,NVLink,8,1\n"
               "all_gather,unknown,1,H100,NVLink,8,1\nall_gather,8,1,H100,NVLink,n/a,1\n"
               "all_gather,8,1,H100,NVLink,8,NaN\n");
  const auto rows = predict_nccl_tables(folder.path.string());
  REQUIRE(rows.has_value());
  CHECK(rows->at(0).error().value() < 0.2);
  CHECK(rows->at(1).skipped == "no hardware file for the GPU 'TPU'");
  CHECK(rows->at(2).skipped == "collective 'fold' is not known");
  CHECK(rows->at(3).skipped == "8 ranks cannot be on 100 nodes");
  CHECK(rows->at(4).skipped == "nranks is not stated");
  CHECK(rows->at(5).skipped == "size_bytes is not stated");
  CHECK(rows->at(6).predicted_us.has_value());
  CHECK_FALSE(rows->at(6).published_us.has_value());
  CHECK_THAT(nccl_predictions_csv(*rows),
             Contains("t,all_gather,8,1,TPU,ICI,1048576,,no hardware file for the GPU 'TPU'\n"));
  folder.write("t.csv",
               "collective,nranks,nnodes,gpu,interconnect,size_bytes\nall_gather,x,1,H100,,8\n");
  CHECK_THAT(predict_nccl_tables(folder.path.string()).error().text(),
             Contains("t.csv:2:12: 'nranks' is 'x'"));
  folder.write("t.csv", "collective,nranks,size_bytes\nall_gather,8.5,8\n");
  CHECK_THAT(predict_nccl_tables(folder.path.string()).error().text(),
             Contains("t.csv:2:12: 'nranks' is '8.5', expected a whole number"));
  CHECK(!predict_nccl_tables("/nonexistent").has_value());
}

TEST_CASE("intervals hold what lies within the factors of the hardware file, and count it") {
  const Folder folder;
  const MeasuredRow row = heavy_row("x", 8);
  const RowPrediction prediction = predict_row(row, folder.path.string());
  REQUIRE(prediction.is_predicted());
  const auto& [low, high] = prediction.step_range;
  CHECK(static_cast<double>(low) / static_cast<double>(prediction.step) ==
        Approx(0.9).margin(0.02));
  CHECK(static_cast<double>(high) / static_cast<double>(prediction.step) ==
        Approx(1.18).margin(0.02));
  CHECK(prediction.peak_range.first < prediction.allocated);
  CHECK(prediction.peak_range.second > prediction.allocated);

  std::vector<RowResult> results(3, RowResult{row, prediction});
  const double seconds = static_cast<double>(prediction.step) / 1e9;
  results[0].row.step_time_s = seconds * 1.1;
  results[1].row.step_time_s = seconds * 1.3;
  const Coverage coverage = coverage_of(results, &RowResult::time_inside);
  CHECK(coverage.n == 2);
  CHECK(coverage.inside == 1);
  CHECK(!coverage_of({}, &RowResult::time_inside).share());
}

TEST_CASE("a published micro-batch is predicted as one, with the gradients of those before it") {
  const Folder folder;
  MeasuredRow row = example_row();
  row.strategy = "single";
  row.gpus = row.nodes = 1;
  row.master = "bf16";
  row.grad_accum = 1;
  row.source = "https://github.com/someone/else";
  const RowPrediction whole = predict_row(row, folder.path.string());
  row.source = "https://github.com/Lightning-AI/litgpt/blob/main/extensions/thunder";
  const RowPrediction part = predict_row(row, folder.path.string());
  REQUIRE(whole.is_predicted());
  REQUIRE(part.is_predicted());
  CHECK(part.step < whole.step);  // most of the optimizer is not in it
  CHECK(part.step > whole.step / 2);
  CHECK(part.step_range.first < part.step);
  CHECK(part.step_range.second > part.step);
  CHECK(part.step_range.second < 2 * part.step);
  CHECK(part.allocated > whole.allocated);
}

TEST_CASE("what no device holds still has a step time") {
  const Folder folder;
  MeasuredRow row = example_row();
  row.strategy = "single";
  row.config = "llama2_70b";
  row.gpus = row.nodes = 1;
  const RowPrediction prediction = predict_row(row, folder.path.string());
  REQUIRE(prediction.is_predicted());
  CHECK_FALSE(prediction.fits);
  CHECK(prediction.step > 0);
  CHECK(prediction.allocated > 900 * GiB);
}
