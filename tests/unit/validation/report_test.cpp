// The report of all tables at once, and the same as JSON.
#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "tasks/validation/report.h"
#include "tasks/validation/tables_out.h"
#include "tasks/validation/validate.h"
#include "tests/support/places.h"
#include "tests/unit/validation/measured_table.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using Catch::Matchers::Contains;

namespace {

std::string replaced(std::string text, const std::string& what, const std::string& with) {
  const auto at = text.find(what);
  REQUIRE(at != std::string::npos);
  return text.replace(at, what.size(), with);
}

const std::string kNccl =
    "collective,nranks,nnodes,gpu,interconnect,size_bytes,time_us\n"
    "all_gather,8,1,H100,NVSwitch,32768,25\n"
    "all_gather,8,1,H100,NVSwitch,524288,30\n"
    "all_gather,8,1,H100,NVSwitch,16777216,80\n"
    "all_gather,8,1,H100,NVSwitch,1073741824,3000\n"
    "all_gather,8,1,TPU v5e,ICI,1073741824,3000\n";

std::string first_lines(const std::string& path, std::size_t count) {
  const std::string text = *read_file(path, 16 * MiB);
  std::size_t end = 0;
  for (std::size_t i = 0; i < count; ++i) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

ValidateRequest all_tables(const Folder& folder) {
  const std::string one = line("fsdp2", "one", "0.02,0.5,");
  const std::string compiled =
      replaced(line("fsdp2", "compiled", "0.018,0.4,"), ",none,none,1,", ",none,per_block,1,");
  const std::string again = line("fsdp2", "again", "0.022,0.5,");
  const std::string wide =
      replaced(line("fsdp2", "wide", "0.021,0.3,"), ",8,1,2,512", ",16,2,2,512");
  const std::string measured = source_dir() + "/traces/measured/";
  ValidateRequest request;
  request.measured =
      folder.write("m.csv", kColumns + one + compiled + again +
                                replaced(wide, ",nvswitch,none,", ",nvswitch,ib_ndr,"));
  std::filesystem::create_directory(folder.path / "tables");
  request.nccl_tests = (folder.path / "tables").string();
  folder.write("tables/t.csv", kNccl);
  std::string steps = first_lines(measured + "h200_steps.csv", 2);
  for (const char* workload : {",llama_1b.toml,"})
    steps = replaced(steps, workload, "," + measured + std::string(workload).substr(1));
  request.gpu_steps = folder.write("steps.csv", steps);
  request.gpu_check = folder.write("check.md", "| schedule | ran |\n|---|---|\n| tiny | yes |\n");
  request.predictions = (folder.path / "out.csv").string();
  request.report = (folder.path / "report.md").string();
  return request;
}

}  // namespace

TEST_CASE("the report has a part for each table, and the predictions of collectives a file") {
  const Folder folder;
  const auto validation = validate(all_tables(folder));
  if (!validation) FAIL(validation.error().text());
  const std::string report = folder.read("report.md");
  CHECK_THAT(report, Contains("| g | 4/4 |"));
  CHECK_THAT(report, Contains("| compile | `one` | `compiled` | none → per_block |"));
  CHECK_THAT(report,
             Contains("- `one`, `again`: step times up to 10.0 % apart, peaks up to 0.0 % apart"));
  CHECK_THAT(report, Contains("| `one` | 8, 16 |"));
  CHECK_THAT(report, Contains("Median error of 4 measurements of published nccl-tests tables"));
  CHECK_THAT(report, Contains("\n| t | "));
  CHECK_THAT(report, Contains("| 1b-full | "));
  CHECK_THAT(report, Contains("| tiny | yes |"));
  const std::string json = to_json(*validation);
  CHECK_THAT(json, Contains("\"published_slope\": ") && Contains("\"within\": "));
  CHECK_THAT(json, Contains("\"one\",\n") && Contains("\"again\"\n"));
  const std::string collectives = folder.read("nccl_predictions.csv");
  CHECK_THAT(collectives, Contains("t.csv") || Contains("t,"));
  CHECK(std::count(collectives.begin(), collectives.end(), '\n') == 6);
  CHECK(validation->skipped().size() == 1);
}

TEST_CASE("steps of a GPU alone are a text, and a table that is none is refused") {
  const Folder folder;
  ValidateRequest request = all_tables(folder);
  request.measured.clear();
  request.nccl_tests.clear();
  request.gpu_check.clear();
  request.report.clear();
  request.predictions.clear();
  const auto validation = validate(request);
  REQUIRE(validation);
  CHECK_THAT(report_text(*validation), Contains("1b-full") && Contains("Median |error|"));
  request.gpu_check = folder.write("check.md", "none\n");
  const auto refused = validate(request);
  REQUIRE_FALSE(refused);
  CHECK_THAT(refused.error().text(), Contains("is no table, expected measured.md of gpu-check"));
}

TEST_CASE("a fit to a table says its figures, and what it was fitted to") {
  const Folder folder;
  ValidateRequest request = all_tables(folder);
  request.measured.clear();
  const auto quiet = [](const FitProgress&) {};
  const auto fitted = fit_to(request, quiet);
  if (!fitted) FAIL(fitted.error().text());
  CHECK_THAT(*fitted, Contains(" % held out"));
  request.nccl_tests.clear();
  CHECK_FALSE(fit_to(request, quiet));
}
