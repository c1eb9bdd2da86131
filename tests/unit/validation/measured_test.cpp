// What a table of measured runs may say, and what becomes of the rest.
#include <catch2/catch.hpp>

#include <string>
#include <vector>

#include "tasks/validation/measured.h"
#include "tasks/validation/validate.h"
#include "tests/unit/validation/measured_table.h"

using namespace foregather;
using namespace foregather::tasks;
using namespace foregather::test;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;
using Catch::Matchers::StartsWith;

TEST_CASE("bad tables are refused where they are bad") {
  const Folder folder;
  const auto error_of = [&](const std::string& text) {
    const auto rows = read_measured(folder.write("m.csv", text));
    REQUIRE(!rows.has_value());
    return rows.error().text();
  };
  CHECK_THAT(error_of("id,gpu\n"), Contains("m.csv:1:1: column 'strategy_key"));
  CHECK_THAT(error_of(kColumns + line("fsdp2", "a", ",,") + line("fsdp2", "a", ",,")),
             Contains("m.csv:3:1: the id 'a' twice"));
  CHECK_THAT(error_of(kColumns + line("fsdp2", "", ",,")), Contains("a row without an id"));
  CHECK(!read_measured("/nonexistent.csv").has_value());
}

TEST_CASE("an odd number costs its row the prediction, an odd answer only that answer") {
  const Folder folder;
  const auto with = [](const std::string& id, const std::string& batch, const char* answers) {
    std::string row = line("fsdp2", id, answers);
    return row.replace(row.find(",2,512,"), 7, "," + batch + ",512,");
  };
  ValidateRequest request;
  request.measured = folder.write(
      "m.csv", kColumns + with("one", "8-16", "0.02,0.5,") + with("two", "2", "~2.5,39.1*,") +
                   with("three", "2k", "nan,0.5,") + with("four", "2", "fast,0.5,"));
  const auto validation = validate(request);
  REQUIRE(validation.has_value());
  const auto& rows = validation->rows;
  CHECK_THAT(rows[0].prediction.skipped,
             StartsWith(request.measured + ":2:") &&
                 EndsWith(": 'micro_batch' is '8-16', expected a positive whole number"));
  CHECK(rows[1].prediction.is_predicted());
  CHECK_FALSE(rows[1].row.has_answer());
  REQUIRE(rows[1].row.warnings.size() == 2);
  CHECK_THAT(rows[1].row.warnings[0],
             Contains("m.csv:3:") &&
                 Contains("'step_time_s' is '~2.5', expected a positive number; left out"));
  CHECK_THAT(rows[2].prediction.skipped, Contains("'2k'"));
  CHECK(rows[3].prediction.is_predicted());
  CHECK(rows[3].peak_error().has_value());
  CHECK_FALSE(rows[3].time_error().has_value());
}

TEST_CASE("cells say in many ways that something is not known, and numbers are read as written") {
  const Folder folder;
  std::string row = line("FSDP2", "a", "Oom, n/a ,");
  const auto put = [&](const std::string& from, const std::string& to) {
    row.replace(row.find(from), from.size(), to);
  };
  put(",1,1,1,", ",unknown,-,1,");
  put(",8,1,2,512,", ",8,not stated, 2 ,\"131,072\",");
  put(",nvswitch,none,,", ",NVSwitch ,None,unknown,");
  const auto rows = read_measured(folder.write("t.csv", kColumns + row));
  REQUIRE(rows.has_value());
  const MeasuredRow& read = rows->front();
  CHECK(read.strategy == "fsdp2");
  CHECK(read.link == "nvswitch");
  CHECK(read.fabric == "none");
  CHECK(read.tensor_parallel == 1);
  CHECK(read.taken_as_one == std::vector<std::string>{"tp", "cp"});
  CHECK_FALSE(read.nodes);
  CHECK(read.micro_batch == 2);
  CHECK(read.seq_len == 131'072);
  CHECK_FALSE(read.fabric_gbps);
  CHECK_FALSE(read.has_answer());
  CHECK(read.ran_out_of_memory());
}
