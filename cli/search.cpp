#include "tasks/search.h"

#include <fmt/format.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cmath>
#include <memory>

#include "cli/command.h"
#include "cli/hardware.h"
#include "cli/search_text.h"
#include "cli/terminal.h"
#include "tasks/memory.h"

namespace foregather::cli {
namespace {

struct SearchArguments {
  std::string source, hardware, memory_limit, time_limit, budget, database;
  std::vector<std::string> vary, sets, what_if, where;
  bool per_token = false, blocks = false, json = false;
};

Result<tasks::SearchRequest> request_of(const SearchArguments& arguments) {
  if (arguments.source.empty())
    return fail("SOURCE is missing: name a workload (.toml), or what else simulate takes");
  tasks::SearchRequest request;
  request.source = arguments.source;
  request.vary = arguments.vary;
  auto sets = with_hardware(arguments.sets, arguments.hardware);
  if (!sets) return tl::unexpected(sets.error());
  request.sets = std::move(*sets);
  request.what_if = arguments.what_if;
  request.where = arguments.where;
  request.per_token = arguments.per_token;
  request.blocks = arguments.blocks;
  request.database = arguments.database;
  if (!arguments.memory_limit.empty()) {
    const auto limit = tasks::parse_capacity(arguments.memory_limit);
    if (!limit) return fail_at("--memory-limit", "{}", limit.error().message);
    request.memory_limit = *limit;
  }
  if (!arguments.time_limit.empty()) {
    const auto limit = tasks::parse_time_limit(arguments.time_limit);
    if (!limit) return fail_at("--time-limit", "{}", limit.error().message);
    request.time_limit = *limit;
  }
  if (!arguments.budget.empty()) {
    const std::string& text = arguments.budget;
    double seconds = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
    constexpr double kDay = 86'400;
    if (error != std::errc() || end != text.data() + text.size() ||
        !(seconds > 0 && seconds <= kDay))
      return fail_at("--budget", "'{}' is no budget, expected seconds, at most a day", text);
    request.budget = seconds;
  }
  return request;
}

int run_search(const SearchArguments& arguments) {
  const auto request = request_of(arguments);
  if (!request) return give_up(request.error());
  const bool is_terminal = ::isatty(STDERR_FILENO) != 0;
  auto last = std::chrono::steady_clock::now();
  const auto report = tasks::search(*request, [&](std::int64_t simulated) {
    const auto now = std::chrono::steady_clock::now();
    if (!is_terminal || now - last < std::chrono::milliseconds(200)) return;
    last = now;
    fmt::print(stderr, "\r{} points simulated\033[K", simulated);
  });
  if (is_terminal) fmt::print(stderr, "\r\033[K");
  if (!report) return give_up(report.error());
  for (const std::string& warning : report->warnings) complain("warning: " + warning);
  return arguments.json ? print_json(tasks::to_json(*report)) : print(search_text(*report));
}

std::vector<Option> options(SearchArguments& arguments) {
  return {
      {"SOURCE", "", "a workload (.toml), or anything else that simulate takes", nullptr,
       &arguments.source, nullptr},
      {"--vary", "KEY=V1,V2,…", "lets a key take each of these values, as in sweep", nullptr,
       nullptr, &arguments.vary},
      {"--memory-limit", "SIZE",
       "asks for the fastest step that needs at most so much of a device's memory, with what lies "
       "outside the allocator: 80GiB",
       nullptr, &arguments.memory_limit, nullptr},
      {"--time-limit", "TIME",
       "asks for the step of least memory that takes at most so long: 300ms", nullptr,
       &arguments.time_limit, nullptr},
      {"--per-token", "",
       "with --memory-limit: the least GPU time per token instead of the shortest step, where "
       "batches or the number of GPUs vary",
       &arguments.per_token, nullptr, nullptr},
      {"--where", "EXPR", "takes only points that meet a condition, as in sweep", nullptr, nullptr,
       &arguments.where},
      {"--set", "KEY=VALUE", "sets a key for all points, as in simulate", nullptr, nullptr,
       &arguments.sets},
      {"--hw", "HW", "the hardware of all points, as in simulate", nullptr, &arguments.hardware,
       nullptr},
      {"--what-if", "PASS", "applies a pass to all points, before those that vary", nullptr,
       nullptr, &arguments.what_if},
      {"--blocks", "",
       "then chooses block by block what is recomputed, from the best point on, and says how far "
       "the choice is from the best one",
       &arguments.blocks, nullptr, nullptr},
      {"--budget", "SECONDS",
       "goes on until the answer is proved or the time is over, and as long again for --blocks; "
       "otherwise the number of simulated points follows from the grid",
       nullptr, &arguments.budget, nullptr},
      {"-o,--output", "SWEEP.db", "keeps the points that were simulated, as sweep does", nullptr,
       &arguments.database, nullptr},
      {"--json", "", "prints one JSON object: times in ns, sizes in bytes", &arguments.json,
       nullptr, nullptr},
  };
}

}  // namespace

Command search_command() {
  const auto arguments = std::make_shared<SearchArguments>();
  Command command;
  command.name = "search";
  command.summary = "finds the fastest settings that fit, or the smallest that are fast enough";
  command.description =
      "Looks for the best of all combinations of values without simulating most of them: one key "
      "after the other takes its best value, and bounds of time and memory rule points out. Small "
      "grids are gone through until nothing else can be better.\n\nPrints the settings as a "
      "command line, how far they are from the bound, what limits them, and others that differ in "
      "kind. That nothing fits is an answer, too.";
  command.options = options(*arguments);
  command.examples = {
      "foregather search traces/samples/llama3_8b_fsdp2.toml --vary "
      "train.activation_checkpointing=none,selective,full --vary "
      "parallel.reshard_after_forward=true,false --memory-limit 80GiB\tthe fastest that fits",
      "foregather search w.toml --vary train.micro_batch=1..16 --vary parallel.world_size=8..64*2 "
      "--memory-limit 80GiB --per-token\tthe cheapest token",
      "foregather search w.toml --blocks --memory-limit 80GiB\twhich blocks to recompute",
      "foregather search w.toml --vary what-if.reshard=,never,8 --time-limit 1.2s --json\tthe "
      "smallest that is fast enough",
  };
  command.run = [arguments] { return run_search(*arguments); };
  return command;
}

}  // namespace foregather::cli
