#include "sim/sweep/condition.h"

#include <catch2/catch.hpp>

using namespace foregather;
using namespace foregather::sim;

namespace {

const std::vector<std::string> kNames{
    "parallel.world_size",       "train.precision",       "hw",           "allocator.conf",
    "what-if.limit-all-gathers", "parallel.bucket_bytes", "train.compute"};

std::optional<std::size_t> column_of(std::string_view key) {
  for (std::size_t i = 0; i < kNames.size(); ++i)
    if (kNames[i] == key) return i;
  return std::nullopt;
}

const std::vector<std::string> kValues{"64", "bf16", "h100_sxm", "", "4", "5MiB", "bf16-mixed"};

bool holds(const std::string& text) {
  const auto condition = Condition::parse(text, column_of);
  if (!condition) FAIL(condition.error().text());
  const auto result = condition->holds(kValues);
  if (!result) FAIL(result.error().text());
  return *result;
}

std::string refused_condition(const std::string& text) {
  const auto condition = Condition::parse(text, column_of);
  if (!condition) return condition.error().text();
  const auto result = condition->holds(kValues);
  return result ? "" : result.error().text();
}

}  // namespace

TEST_CASE("conditions compare numbers and texts") {
  CHECK(holds("parallel.world_size % 8 == 0"));
  CHECK(holds("parallel.world_size%8==0"));
  CHECK_FALSE(holds("parallel.world_size % 7 == 0"));
  CHECK(holds("parallel.world_size > 9"));  // as numbers: as texts "64" comes before "9"
  CHECK(holds("parallel.world_size == 64.0"));
  CHECK(holds("train.precision == bf16"));
  CHECK(holds("train.precision != 'fp32'"));
  CHECK(holds("hw == \"h100_sxm\""));
  CHECK(holds("allocator.conf == ''"));
  CHECK(holds("1.5e-3 * 1000 == 1.5 && 1e+2 == 100 && 2e0-1 == 1"));
  CHECK(holds("0.1 + 0.2 == 0.3 && 0.1 + 0.2 <= 0.3 && !(0.1 + 0.2 > 0.3)"));
  CHECK(holds("1000000000000001 > 1000000000000000 && 0 == 0 && 1e-300 > 0"));
  CHECK(holds("1e308 * 10 == 1e308 * 10"));
}

TEST_CASE("sizes are numbers of bytes") {
  CHECK(holds("parallel.bucket_bytes <= 25MiB && parallel.bucket_bytes < 100MiB"));
  CHECK(holds("parallel.bucket_bytes == 5120KiB && parallel.bucket_bytes != '5 MB'"));
  CHECK(holds("parallel.bucket_bytes * 2 == 10 * 1048576 && '0.5 MiB' == 512KiB"));
  CHECK(holds("5MiB-1MiB == 4MiB && 25MiB % 5MiB == 0"));
  CHECK(refused_condition("parallel.bucket_bytes > '5 ms'").find("'5 ms' is no number") !=
        std::string::npos);
  CHECK_FALSE(holds("parallel.bucket_bytes == '5XiB' || '1.5B' == 1"));
}

TEST_CASE("sums and remainders of decimal numbers are exact") {
  for (const char* each : {"0.1", "0.3", "0.5", "0.7", "2.1", "1e-3 * 1100"}) {
    CAPTURE(each);
    CHECK(holds(fmt::format("{} % 0.1 == 0", each)));
  }
  CHECK(holds("0.35 % 0.1 == 0.05 && -0.35 % 0.1 == -0.05 && 0.3 % -0.1 == 0"));
  CHECK(holds("0.1 + 0.2 - 0.3 == 0 && 1.1 - 1 - 0.1 == 0"));
  CHECK(holds("1e300 + 1e-300 == 1e300 && 3e15 % 2 == 0 && 9007199254740991 % 2 == 1"));
  CHECK(holds("0.30000001 % 0.1 != 0"));
}

TEST_CASE("a bare word may have dashes") {
  CHECK(holds("train.compute == bf16-mixed && bf16-mixed == train.compute"));
  CHECK(holds("train.compute != fp32-shifted && (train.compute == bf16-mixed)"));
  CHECK(refused_condition("train.precision - mixed == 1").find("arithmetic on 'bf16'") !=
        std::string::npos);
  CHECK(refused_condition("micro-train.batch == 1").starts_with("--where:1: 'micro-train.batch'"));
}

TEST_CASE("operators have their usual strength") {
  CHECK(holds("1 + 2 * 3 == 7"));
  CHECK(holds("(1 + 2) * 3 == 9"));
  CHECK(holds("8 / 4 / 2 == 1"));
  CHECK(holds("-2 - -3 == 1"));
  CHECK(holds(".5 < 1 && -.5 > -1"));
  CHECK(holds("1 == 2 || 3 == 3 && 4 == 4"));
  CHECK_FALSE(holds("(1 == 2 || 3 == 3) && 4 == 5"));
  CHECK(holds("!(1 == 2)"));
  CHECK(holds("not 1 == 2 and 2 == 2 or false"));
  CHECK(holds("1 <= 1 && 1 >= 1 && 1 < 2 && 2 > 1"));
  CHECK(holds("true"));
  CHECK_FALSE(holds("allocator.conf"));
  CHECK(holds("parallel.world_size"));
}

TEST_CASE("keys of passes have dashes, and others can be subtracted") {
  CHECK(holds("what-if.limit-all-gathers == 4"));
  CHECK(holds("parallel.world_size-4 == 60"));
  CHECK(holds("what-if.limit-all-gathers-1 == 3"));
}

TEST_CASE("what is decided already is not evaluated") {
  CHECK(holds("true || 1 / 0 == 1"));
  CHECK_FALSE(holds("false && 1 / 0 == 1"));
}

TEST_CASE("what cannot be compared is refused, not decided by letters") {
  CHECK(refused_condition("world_size >= 8") ==
        "--where:1: 'world_size' has no value here: expected a key that is varied, set, or in the "
        "source, did you mean 'parallel.world_size'?");
  CHECK(refused_condition("cluster.nodes == 2").ends_with("or in the source"));
  CHECK(refused_condition("8 == micro_batch").starts_with("--where:6: 'micro_batch' has no value"));
  CHECK(refused_condition("cluster == a100").starts_with("--where:1: 'cluster' has no value here"));
  CHECK(refused_condition("train.precision < 8") ==
        "--where:17: 'bf16' is no number, and only numbers are more or less");
  CHECK(refused_condition("train.precision < bf17").starts_with("--where:17: 'bf16' is no number"));
  CHECK(refused_condition("8 >= hw").starts_with("--where:3: 'h100_sxm' is no number"));
  CHECK(refused_condition("hw > allocator.conf").starts_with("--where:4: 'h100_sxm' is no number"));
  CHECK(refused_condition("allocator.conf <= 8")
            .starts_with("--where:16: a key without a value is not more or less"));
  CHECK(holds("allocator.conf == '' || allocator.conf <= 8"));
  CHECK_FALSE(holds("allocator.conf == 8"));
  CHECK(refused_condition("1 < parallel.world_size < 100")
            .starts_with("--where:25: a second comparison in a row"));
  CHECK(refused_condition("1 == 1 == 1").starts_with("--where:8: a second comparison in a row"));
  CHECK(holds("(1 == 1) == (2 == 2)"));
  CHECK(holds("(1 == 1) == 'true'"));
}

TEST_CASE("a bad condition is refused at its place") {
  CHECK(refused_condition("parallel.world_sise == 8")
            .starts_with("--where:1: 'parallel.world_sise'"));
  CHECK(refused_condition("1 == ").starts_with("--where:6: the condition ends"));
  CHECK(refused_condition("(1 == 1").starts_with("--where:8: expected ')' for the '(' at 1"));
  CHECK(refused_condition("1 == 1)").starts_with("--where:7: ')' is not expected here"));
  CHECK(refused_condition("'a").starts_with("--where:1: the quote has no end"));
  CHECK(refused_condition("1 / 0 == 1").starts_with("--where:3: division by zero"));
  CHECK(refused_condition("1 == 1 && hw % 8 == 0")
            .starts_with("--where:14: arithmetic on 'h100_sxm'"));
  CHECK(refused_condition("hw").starts_with("--where:1: 'h100_sxm' is neither true nor false"));
  CHECK(refused_condition("").starts_with("--where:1: the condition ends"));
  CHECK(refused_condition("#").starts_with("--where:1: '#' is not expected here"));
  CHECK(refused_condition("1 = 1").starts_with(
      "--where:3: '=' compares nothing, did you mean '=='?"));
  CHECK(refused_condition(std::string(100'000, '(')).find("more than 100 levels") !=
        std::string::npos);
  std::string chain = "1";
  for (int i = 0; i < 20'000; ++i) chain += "||1";
  CHECK(refused_condition(chain).find("more than 1000 operators") != std::string::npos);
  CHECK(refused_condition(std::string(100'000, '!')).find("more than 100 levels") !=
        std::string::npos);
  CHECK(refused_condition(std::string(100'000, '-')).find("more than 100 levels") !=
        std::string::npos);
}
