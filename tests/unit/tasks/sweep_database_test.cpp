// What a sweep leaves behind, goes on with, reads and joins.
#include <filesystem>

#include <catch2/catch.hpp>

#include "core/base/file.h"
#include "core/store/sweep_reader.h"
#include "tasks/merge.h"
#include "tasks/simulate.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"
#include "tests/unit/tasks/swept.h"

using namespace foregather;
using namespace foregather::tasks;
using test::indices;
using test::kSamples;
using test::refusal;
using test::swept;
using test::Swept;
using test::tiny;

TEST_CASE("a database keeps every row, and resuming adds only what is missing") {
  const test::Scratch scratch;
  SweepRequest request =
      tiny({"train.micro_batch=1..6", "parallel.world_size=1..6", "cluster.gpus_per_node=,4"});
  const Swept plain = swept(request);
  request.database = scratch.path("sweep.db");
  request.shard = {1, 3};
  CHECK(swept(request).counts->predicted == 24);
  CHECK(refusal(request).find("exists: go on with it by --resume") != std::string::npos);
  request.shard = {};
  request.resume = true;
  const Swept rest = swept(request);
  if (!rest.counts) FAIL(rest.counts.error().text());
  CHECK(rest.counts->present == 24);
  CHECK(rest.counts->predicted == 48);
  CHECK(rest.points == plain.points);
  const Swept again = swept(request);
  CHECK(again.counts->predicted == 0);
  CHECK(again.points == plain.points);

  SweepRequest other = request;
  other.vary[0] = "train.micro_batch=1..7";
  CHECK(refusal(other).find("is another sweep: other values of --vary") != std::string::npos);
  other = request;
  other.sets = {"train.seq_len=64"};
  CHECK(refusal(other).find("is another sweep: other --set") != std::string::npos);
  other = request;
  other.database = scratch.write("text.db", "no database at all, but long enough to be looked at");
  CHECK(refusal(other).find("text.db") != std::string::npos);
}

TEST_CASE("a sweep whose files changed is another sweep") {
  const test::Scratch scratch;
  const auto text_of = [](const std::string& path) { return *read_file(path, 1 << 20); };
  const std::string config =
      scratch.write("model.json", text_of(kSamples + "configs/tiny_llama.json"));
  const std::string hardware = scratch.write("own.toml", "base = \"h100_sxm\"\nname = \"own\"\n");
  SweepRequest request = tiny({"train.micro_batch=1..4", "hw=h100_sxm," + hardware});
  request.sets = {"model.config=" + config};
  request.database = scratch.path("sweep.db");
  request.resume = true;
  request.shard = {1, 2};
  const Swept first = swept(request);
  if (!first.counts) FAIL(first.counts.error().text());
  request.shard = {};
  scratch.write("own.toml", "base = \"h100_sxm\"\nname = \"own\"\n# slower\n");
  CHECK(refusal(request).find("is another sweep: another " + hardware) != std::string::npos);
  scratch.write("own.toml", "base = \"h100_sxm\"\nname = \"own\"\n");
  scratch.write("model.json", text_of(config) + " ");
  CHECK(refusal(request).find("is another sweep: another " + config) != std::string::npos);
  scratch.write("model.json", text_of(kSamples + "configs/tiny_llama.json"));
  CHECK(swept(request).counts->predicted == 4);
}

TEST_CASE("a sweep of a stored prediction is another one when a file of that changed") {
  const test::Scratch scratch;
  const std::string text = *read_file(kSamples + "configs/tiny_llama.json", 1 << 20);
  const std::string config = scratch.write("model.json", text), run = scratch.path("run.db");
  SimulateRequest predict;
  predict.sources.paths = {kSamples + "tiny_fsdp2.toml"};
  predict.sets = {"model.config=" + config};
  const auto predicted = simulate(predict);
  if (!predicted) FAIL(predicted.error().text());
  test::written(run, predicted->run);
  SweepRequest request = tiny({"train.micro_batch=1,2"});
  request.source = run;
  request.database = scratch.path("sweep.db");
  request.resume = true;
  request.shard = {1, 2};
  if (const Swept first = swept(request); !first.counts) FAIL(first.counts.error().text());
  request.shard = {};
  scratch.write("model.json", text + " ");
  CHECK(refusal(request).find("is another sweep: another " + config) != std::string::npos);
  scratch.write("model.json", text);
  CHECK(swept(request).counts->predicted == 1);
}

TEST_CASE("a resumed sweep knows the files of its axes by what they hold") {
  const test::Scratch scratch;
  const std::string model = *read_file(kSamples + "configs/tiny_llama.json", 1 << 20);
  const std::string plain = scratch.write("plain", model);
  SweepRequest request = tiny({});
  request.database = scratch.path("sweep.db");
  request.resume = true;
  SECTION("whatever they are called") {
    const auto here = std::filesystem::current_path();
    std::filesystem::current_path(std::filesystem::path(plain).parent_path());
    request.vary = {"model.config=plain"};
    const Swept first = swept(request);
    scratch.write("plain", model + " ");
    const std::string refused = refusal(request);
    std::filesystem::current_path(here);
    REQUIRE(first.counts.has_value());
    CHECK(refused.find("is another sweep: another plain") != std::string::npos);
  }
  SECTION("where an axis has what every workload needs") {
    request.source = scratch.write("w.toml", "[parallel]\nworld_size = 4\n");
    const std::string hardware = scratch.write("own.toml", "base = \"h100_sxm\"\n");
    const std::string key = GENERATE("hw=", "cluster.hw=", "cluster.hardware=");
    CAPTURE(key);
    request.vary = {"model.config=" + plain, key + hardware};
    REQUIRE(swept(request).counts.has_value());
    scratch.write("own.toml", "base = \"l4\"\n");
    CHECK(refusal(request).find("is another sweep: another " + hardware) != std::string::npos);
  }
}

TEST_CASE("every file that an axis names is known, whichever values make a workload together") {
  const test::Scratch scratch;
  SweepRequest request = tiny({});
  request.database = scratch.path("sweep.db");
  request.resume = true;
  const std::string base = scratch.write("base.toml", "base = \"h100_sxm\"\n");
  const std::string hardware = scratch.write("own.toml", "base = \"base.toml\"\n");
  const std::string hw = "hw=h100_sxm," + hardware;
  const std::string good = scratch.write("good.json", "{}");
  SECTION("one that cannot be read comes first") {
    const std::string bad = scratch.write("bad.json", "{");
    request.vary = {"parallel.deepspeed_config=" + bad + "," + good, hw};
  }
  SECTION("the first values contradict each other") {
    const std::string other = scratch.write("other.toml", "[training]\nsteps = 1\n");
    request.vary = {"parallel.deepspeed_config=" + good + ",",
                    "parallel.torchtitan_config=" + other + ",", hw};
  }
  SECTION("of a schedule that is ready") {
    request.source = kSamples + "thunder_tied_linear.txt";
    request.vary = {hw};
  }
  const Swept first = swept(request);
  if (!first.counts) FAIL(first.counts.error().text());
  request.picture = base;
  CHECK(refusal(request) == base + ": is an input, expected another file to write");
  request.picture.clear();
  scratch.write("base.toml", "base = \"l4\"\n");
  CHECK(refusal(request).find("is another sweep: another " + base) != std::string::npos);
}

TEST_CASE("a sweep of a program that kept no digests goes on, and merges") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"train.micro_batch=1..4"});
  std::vector<std::string> parts;
  for (const std::int64_t number : {1, 2}) {
    request.shard = {number, 2};
    request.database = scratch.path(fmt::format("part{}.db", number));
    REQUIRE(swept(request).counts.has_value());
    parts.push_back(request.database);
  }
  auto old = store::Database::open_in_place(parts.front());
  REQUIRE(old.has_value());
  REQUIRE(
      old->execute("DROP TABLE sweep_input; DROP TABLE kernel_launch; DROP TABLE run_input; PRAGMA "
                   "user_version = 5")
          .has_value());
  REQUIRE(old->finish().has_value());
  CHECK(merge(parts, scratch.path("merged.db")).value()->points == 4);
  request.database = parts.front();
  request.shard = {};
  request.resume = true;
  CHECK(swept(request).counts->predicted == 2);
}

TEST_CASE("no output of a sweep is an input, or another output") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"train.micro_batch=1,2"});
  request.source = scratch.write("w.toml", *read_file(request.source, 1 << 20));
  const std::string config = scratch.write("model.json", "{}");
  const std::string base = scratch.write("base.toml", "base = \"h100_sxm\"\n");
  const std::string hardware = scratch.write("hw.toml", "base = \"" + base + "\"\n");
  request.sets = {"model.config=" + config, "cluster.hardware=" + hardware};
  for (const std::string& input : {request.source, config, hardware, base}) {
    request.picture = input;
    CHECK(refusal(request) == input + ": is an input, expected another file to write");
    request.picture.clear();
    request.database = input;
    CHECK(refusal(request) == input + ": is an input, expected another file to write");
    request.database.clear();
  }
  request.database = request.picture = scratch.path("out");
  CHECK(refusal(request).ends_with("is to be two outputs, expected two files"));
}

TEST_CASE("a sweep without a row leaves no database, a shard without points is one") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"train.micro_batch=1,2"});
  request.database = scratch.path("sweep.db");
  for (const char* condition : {"1 / (train.micro_batch - 2) < 5", "train.micro_batch > 5"}) {
    request.where = {condition};
    CHECK_FALSE(refusal(request).empty());
    CHECK_FALSE(std::filesystem::exists(request.database));
  }
  request.where.clear();
  request.sets = {"parallel.world_size=12", "cluster.gpus_per_node=8"};
  CHECK_FALSE(refusal(request).empty());
  CHECK_FALSE(std::filesystem::exists(request.database));

  request.sets.clear();
  request.shard = {3, 4};
  const Swept empty = swept(request);
  if (!empty.counts) FAIL(empty.counts.error().text());
  CHECK(empty.counts->warnings == std::vector<std::string>{"shard 3 of 4 has no points"});
  CHECK(store::is_sweep(request.database));
  // What the others had is there, and not this one's.
  request.resume = true;
  request.shard = {};
  CHECK(swept(request).counts->predicted == 2);
  request.shard = {4, 4};
  CHECK(indices(swept(request).points) == std::vector<std::int64_t>{1});
}

TEST_CASE("a shard whose points all fail keeps their rows") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"parallel.world_size=12,8", "train.micro_batch=1,2"});
  request.sets = {"cluster.gpus_per_node=8"};
  const Swept whole = swept(request);
  std::vector<std::string> parts;
  for (const std::int64_t number : {1, 2}) {
    request.shard = {number, 2};
    request.database = scratch.path(fmt::format("part{}.db", number));
    const Swept part = swept(request);
    if (!part.counts) FAIL(part.counts.error().text());
    REQUIRE(part.points.size() == 2);
    parts.push_back(request.database);
    const std::vector<std::string>& warnings = part.counts->warnings;
    REQUIRE(warnings.size() == (number == 1 ? 1 : 0));
    if (number == 1)
      CHECK(warnings.front().starts_with("none of the 2 points of shard 1 of 2 can be predicted"));
  }
  const std::string merged = scratch.path("merged.db");
  CHECK(merge(parts, merged).value()->points == 4);
  request.resume = true;
  request.shard = {1, 2};
  request.database = parts.front();
  const Swept again = swept(request);
  if (!again.counts) FAIL(again.counts.error().text());
  CHECK(again.counts->predicted == 0);
  CHECK(again.counts->present == 2);
  request.shard = {};
  request.database = merged;
  const Swept read = swept(request);
  CHECK(read.counts->predicted == 0);
  CHECK(read.points == whole.points);

  // A whole grid without a point that can be is a failure still, however it came about.
  request.vary.front() = "parallel.world_size=12,20";
  request.resume = false;
  parts.clear();
  for (const std::int64_t number : {1, 2}) {
    request.shard = {number, 2};
    request.database = scratch.path(fmt::format("hopeless{}.db", number));
    CHECK(swept(request).points.size() == 2);
    parts.push_back(request.database);
  }
  request.database = scratch.path("hopeless.db");
  CHECK(merge(parts, request.database).value()->points == 4);
  request.shard = {};
  request.resume = true;
  CHECK(refusal(request).find("none of 4 points can be predicted") != std::string::npos);
  CHECK(store::is_sweep(request.database));
}

TEST_CASE("merged shards are the sweep") {
  const test::Scratch scratch;
  SweepRequest request = tiny({"train.micro_batch=1..5", "parallel.world_size=1..7"});
  const Swept whole = swept(request);
  std::vector<std::string> parts;
  for (const std::int64_t number : {1, 2, 3}) {
    request.shard = {number, 3};
    request.database = scratch.path(fmt::format("part{}.db", number));
    REQUIRE(swept(request).counts.has_value());
    parts.push_back(request.database);
  }
  const std::string merged = scratch.path("merged.db");
  parts.push_back(parts.front());  // points that several have
  const auto partly = merge({parts[0], parts[2]}, scratch.path("partly.db"));
  REQUIRE(partly.has_value());
  CHECK((*partly)->points == 23);
  CHECK((*partly)->grid == 35);
  const auto joined = merge(parts, merged);
  REQUIRE(joined.has_value());
  CHECK((*joined)->points == 35);
  request.shard = {};
  request.database = merged;
  request.resume = true;
  const Swept read = swept(request);
  if (!read.counts) FAIL(read.counts.error().text());
  CHECK(read.counts->predicted == 0);
  CHECK(read.points == whole.points);

  request.resume = false;
  request.vary[0] = "train.micro_batch=1..4";
  request.database = scratch.path("other.db");
  REQUIRE(swept(request).counts.has_value());
  parts.push_back(request.database);
  const auto mixed = merge(parts, scratch.path("never.db"));
  REQUIRE_FALSE(mixed.has_value());
  CHECK(mixed.error().text().find("is no part of the same sweep") != std::string::npos);
  const auto why_not = [&](const std::string& other) {
    return merge({parts[0], other}, scratch.path("never.db")).error().text();
  };
  const std::string absent = scratch.path("absent.db");
  CHECK(why_not(absent) == absent + ": cannot be read: No such file or directory");
  CHECK(why_not(scratch.write("text.db", "no database")).find("is not a SQLite database") !=
        std::string::npos);
}
