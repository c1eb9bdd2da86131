#include "tasks/search.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <filesystem>
#include <set>

#include "core/alloc/rounding.h"
#include "core/base/text.h"
#include "sim/passes/arguments.h"
#include "tasks/block_search.h"
#include "tasks/search_judge.h"
#include "tasks/simulate.h"
#include "tasks/sweep_rows.h"

namespace foregather::tasks {
namespace {

constexpr std::int64_t kProvedGrid = 4'096;
constexpr std::int64_t kProvedInTime = 1'000'000;
constexpr std::int64_t kFewestJudged = 64,
                       kMostJudged = 2'000;  // points simulated of a larger grid
constexpr std::size_t kRunnersUp = 3;
// A point that the limit forbids matters if it is better by so much.
constexpr double kNoticed = 0.01;
constexpr int kSimulatedBeyond = 16;

sim::SearchLimits limits_of(const SearchRequest& request, std::int64_t points) {
  using Clock = std::chrono::steady_clock;
  sim::SearchLimits limits;
  limits.judged = points;
  limits.enumerated = kProvedGrid;
  if (request.budget) {
    const auto end = Clock::now() + std::chrono::duration<double>(*request.budget);
    limits.enumerated = kProvedInTime;
    limits.is_over = [end] { return Clock::now() >= end; };
  } else if (points > kProvedGrid) {
    limits.judged = std::clamp(points / 50, kFewestJudged, kMostJudged);
  }
  return limits;
}

// Sets of blocks are values of a key that varies.
GridRequest with_blocks_axis(const SearchRequest& request) {
  auto varied = static_cast<const GridRequest&>(request);
  const std::string axis = std::string(kBlocksKey) + "=";
  const bool varies = std::ranges::any_of(
      varied.vary, [&](const std::string& text) { return text.starts_with(axis); });
  if (request.blocks && !varies) varied.vary.push_back(axis + "none,full");
  return varied;
}

Status check(const SearchRequest& request) {
  if (!request.memory_limit && !request.time_limit)
    return fail("the limit is missing: expected --memory-limit 80GiB or --time-limit 300ms");
  if (request.memory_limit && *request.memory_limit < alloc::kSmallBuffer)
    return fail(
        "--memory-limit {} is less than PyTorch allocates at once, expected a size such as "
        "80GiB",
        format_bytes(*request.memory_limit));
  if (request.memory_limit && request.time_limit)
    return fail("--memory-limit and --time-limit are both given, expected one");
  if (request.blocks && !workload_text(request.source).value_or(std::nullopt))
    return fail_at("--blocks", "needs a workload (.toml): {} is none", request.source);
  const auto names_blocks = [](const std::string& set) {
    return set.substr(0, set.find('=')) == kBlocksKey;
  };
  if (request.blocks && std::ranges::any_of(request.sets, names_blocks))
    return fail_at("--blocks", "{} is set for all points, too (--set): expected one of the two",
                   kBlocksKey);
  if (request.time_limit && request.per_token)
    return fail_at("--per-token", "says what is fastest, and --time-limit asks for the smallest");
  return {};
}

SearchGoal goal_of(const SearchRequest& request) {
  if (request.time_limit) return SearchGoal::memory;
  return request.per_token ? SearchGoal::gpu_time_per_token : SearchGoal::step_time;
}

// As a shell takes it.
std::string quoted(const std::string& word) {
  constexpr std::string_view kPlain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=.,:/@%";
  if (!word.empty() && word.find_first_not_of(kPlain) == std::string::npos) return word;
  std::string text = "'";
  for (const char letter : word) text += letter == '\'' ? "'\\''" : std::string(1, letter);
  return text + "'";
}

std::string command_of(const std::string& source, const Candidate& candidate) {
  std::string text = "foregather simulate " + quoted(source);
  for (const std::string& set : candidate.sets) text += " --set " + quoted(set);
  for (const std::string& pass : candidate.what_if) text += " --what-if " + quoted(pass);
  return text;
}

bool is_number(const std::string& text) {
  double number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

// By axis: does it hold a size, and no choice?
std::vector<bool> sizes_of(const sim::Grid& grid) {
  std::vector<bool> sizes;
  for (const sim::Axis& axis : grid.axes())
    sizes.push_back(std::ranges::all_of(axis.examples(), is_number));
  if (std::ranges::all_of(sizes, [](bool is_size) { return is_size; }))
    sizes.assign(sizes.size(), false);
  return sizes;
}

// What a point chooses.
std::string kind_of(const run::SweepPoint& point, const std::vector<bool>& sizes) {
  std::string kind;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    if (!sizes[i]) kind += point.values[i] + '\n';
  return kind;
}

// `is_best`: the best of them is the answer.
std::vector<run::SweepPoint> runners_up(const SweepGrid& grid, const SimulatorJudge& judge,
                                        std::vector<sim::JudgedPoint> judged, bool is_best) {
  const std::vector<bool> sizes = sizes_of(grid.points());
  std::erase_if(judged, [](const sim::JudgedPoint& each) { return !each.judgement.fits(); });
  std::ranges::sort(judged);
  std::set<std::string> kinds;
  std::set<std::pair<Ns, Bytes>> figures;  // a choice without effect is no other kind
  std::vector<run::SweepPoint> chosen;
  for (const sim::JudgedPoint& each : judged) {
    const run::SweepPoint& point = judge.simulated().at(each.point);
    if (!figures.emplace(point.figures.times->step, *device_memory(point.figures)).second) continue;
    if (!kinds.insert(kind_of(point, sizes)).second) continue;
    chosen.push_back(point);
    if (chosen.size() > kRunnersUp) break;
  }
  if (is_best && !chosen.empty()) chosen.erase(chosen.begin());
  if (chosen.size() > kRunnersUp) chosen.pop_back();
  return chosen;
}

// How much better a point beyond the limit is, by its simulation or else by its bound.
struct Beyond {
  double share = 0;
  bool is_simulated = false;
};

// Of the points beyond the limit, from the least bound on: what the best of them would win. Only
// `left` are simulated for that, without being counted; bounds are compared with bounds.
Result<std::optional<Beyond>> best_beyond(const SearchBest& best, const SweepGrid& grid,
                                          const sim::SearchOutcome& outcome, SimulatorJudge& judge,
                                          int left) {
  const run::PointFigures& figures = best.point.figures;
  const auto cost = static_cast<double>(
      judge.cost_floor({figures.times->step, best.memory, 0, figures.tokens_per_rank_step}));
  const auto floors = judge.floors(grid.candidate(best.point.values));
  const double floor = floors ? static_cast<double>(judge.cost_floor(*floors)) : cost;
  const auto share = [](const sim::Judgement& judged, double of) {
    return 1 - static_cast<double>(judged.cost) / of;
  };
  std::vector<sim::JudgedPoint> outside = outcome.outside;
  std::ranges::sort(outside, {}, [](const sim::JudgedPoint& each) {
    return std::pair(each.judgement.cost, each.point);
  });
  std::optional<Beyond> most;
  for (const sim::JudgedPoint& each : outside) {
    if (!judge.is_a_matter_of_the_limit(each.judgement)) continue;
    if (share(each.judgement, cost) < std::max(kNoticed, most ? most->share : 0)) break;
    sim::Judgement judged = each.judgement;
    run::SweepPoint point;
    if (const auto found = judge.simulated().find(each.point); found != judge.simulated().end()) {
      point = found->second;
    } else {
      if (left == 0) continue;  // those that were simulated come last: their costs are no bounds
      --left;
      point.index = each.point;
      point.values = grid.points().values(each.point);
      const auto now = judge.judge_values(point);
      if (!now) return tl::unexpected(now.error());
      if (!*now || !judge.is_a_matter_of_the_limit(**now)) continue;
      judged = **now;
    }
    const bool is_simulated = point.figures.times.has_value();
    const double won = share(judged, is_simulated ? cost : floor);
    if (won >= kNoticed && (!most || won > most->share)) most = Beyond{won, is_simulated};
  }
  return most;
}

Status say_limit(const SearchReport& report, const SweepGrid& grid,
                 const sim::SearchOutcome& outcome, SimulatorJudge& judge, SearchBest& best) {
  const bool is_memory = report.goal == SearchGoal::memory;
  const bool has_time = !report.request.budget || !outcome.is_over;
  const auto beyond = best_beyond(best, grid, outcome, judge, has_time ? kSimulatedBeyond : 0);
  if (!beyond) return tl::unexpected(beyond.error());
  if (*beyond) {
    best.limited_by = is_memory ? "time" : "memory";
    best.because = fmt::format("a point beyond the limit {} {:.1f} % {}",
                               (*beyond)->is_simulated ? "is" : "has a bound that is",
                               (*beyond)->share * 100, is_memory ? "smaller" : "faster");
    return {};
  }
  if (is_memory) {
    best.limited_by = "memory";
    best.because = "no point beyond the limit is smaller by 1 %";
    return {};
  }
  const PathFigures& path = best.path;
  // A host that is on its way limits the step also while the device still has work.
  const Ns compute = path.compute - path.beside_compute, comm = path.comm - path.beside_comm;
  const Ns longest = std::max({compute, comm, path.host + path.beside_compute + path.beside_comm});
  best.limited_by = longest == compute ? "compute" : longest == comm ? "link" : "host";
  best.because = fmt::format("{} of the critical path is {}", format_time(longest),
                             longest == compute ? "compute"
                             : longest == comm  ? "communication"
                                                : "the host's launches");
  return {};
}

Result<SearchBest> best_of(const SearchReport& report, const SweepGrid& grid, run::SweepPoint point,
                           const sim::SearchOutcome& outcome, SimulatorJudge& judge) {
  SearchBest best;
  best.point = std::move(point);
  best.memory = *device_memory(best.point.figures);
  const Candidate candidate = grid.candidate(best.point.values);
  best.command = command_of(report.request.source, candidate);
  SimulateRequest request;
  request.sources.paths = {report.request.source};
  request.sets = candidate.sets;
  request.what_if = candidate.what_if;
  request.record_memory = false;
  const auto again = simulate(request);
  if (!again) return tl::unexpected(again.error());
  best.path = again->summary.path;
  best.time_bound = again->summary.bound.value_or(0);
  best.memory_bound = again->summary.memory_bound + again->summary.outside_allocator;
  const bool is_memory = report.goal == SearchGoal::memory;
  const auto reached =
      static_cast<double>(is_memory ? best.memory : best.point.figures.times->step);
  const auto bound = static_cast<double>(is_memory ? best.memory_bound : best.time_bound);
  best.gap = bound > 0 ? reached / bound - 1 : 0;
  if (const Status said = say_limit(report, grid, outcome, judge, best); !said)
    return tl::unexpected(said.error());
  return best;
}

std::optional<SearchMiss> miss_of(const SearchReport& report, const SweepGrid& grid,
                                  const sim::SearchOutcome& outcome, SimulatorJudge& judge) {
  if (!outcome.closest) return std::nullopt;
  SearchMiss miss;
  miss.values = grid.points().values(outcome.closest->point);
  const auto found = judge.simulated().find(outcome.closest->point);
  const bool is_memory = report.goal == SearchGoal::memory;
  if (found != judge.simulated().end() && found->second.figures.times) {
    miss.is_simulated = true;
    miss.need =
        is_memory ? found->second.figures.times->step : *device_memory(found->second.figures);
    return miss;
  }
  const auto floors = judge.floors(grid.candidate(miss.values));
  if (!floors) return std::nullopt;
  miss.runs_out_of_memory = found != judge.simulated().end() ||
                            (floors->capacity > 0 && floors->memory > floors->capacity);
  miss.need = is_memory ? floors->step : floors->memory;
  return miss;
}

void warn_of_tokens(const SimulatorJudge& judge, SearchReport& report) {
  if (report.goal == SearchGoal::step_time && judge.tokens().size() > 1)
    report.warnings.emplace_back(
        "the points' steps hold different numbers of tokens, and the shortest step wins: "
        "--per-token compares GPU time per token");
}

Status check_outcome(const SearchReport& report, const sim::SearchOutcome& outcome) {
  if (outcome.best || outcome.closest) return {};
  if (report.impossible > 0)
    return fail("none of the points that were looked at can be predicted; the first one: {}",
                report.first_error);
  if (report.simulated == 0 && outcome.is_over)
    return fail_at("--budget", "is over before the first point");
  return fail_at("--where", "none of the points that were looked at meets the conditions");
}

}  // namespace

std::string_view name(SearchGoal goal) {
  switch (goal) {
    case SearchGoal::step_time: return "step_time";
    case SearchGoal::gpu_time_per_token: return "gpu_time_per_token";
    case SearchGoal::memory: return "memory";
  }
  return "";
}

Result<Ns> parse_time_limit(const std::string& text) {
  const auto limit = sim::parse_duration(text);
  if (limit) return *limit;
  return fail("'{}' is no time up to an hour, expected a number with ns, us, ms or s, as in 300ms",
              text);
}

std::optional<Bytes> device_memory(const run::PointFigures& figures) {
  if (!figures.memory || figures.memory->oom_bytes) return std::nullopt;
  return *reserved(figures) + figures.memory->outside_allocator;
}

Result<SearchReport> search(const SearchRequest& request,
                            const std::function<void(std::int64_t)>& progress) {
  if (const Status checked = check(request); !checked) return tl::unexpected(checked.error());
  const auto grid = SweepGrid::read(with_blocks_axis(request));
  if (!grid) return tl::unexpected(grid.error());
  std::optional<store::SweepWriter> writer;
  if (!request.database.empty()) {
    std::error_code ignored;
    if (std::filesystem::exists(request.database, ignored))
      return fail_at(request.database, "exists: name another file");
    auto opened = store::SweepWriter::create(request.database, grid->info);
    if (!opened) return tl::unexpected(opened.error());
    writer.emplace(std::move(*opened));
  }
  SearchReport report;
  report.request = request;
  report.info = grid->info;
  report.goal = goal_of(request);
  SimulatorJudge judge(*grid, request, report.goal, writer ? &*writer : nullptr, progress);
  const auto outcome =
      sim::search(grid->points(), judge, limits_of(request, grid->points().size()));
  const auto is_of_use = [](const auto& entry) {
    return entry.second.status != run::PointStatus::failed;
  };
  const bool is_answered = outcome && (outcome->best || outcome->closest);  // or that nothing fits
  if (writer && !is_answered && std::ranges::none_of(judge.simulated(), is_of_use))
    writer->abandon();
  else if (writer)
    if (const Status finished = writer->finish(); !finished && outcome)
      return tl::unexpected(finished.error());
  if (!outcome) return tl::unexpected(outcome.error());
  report.simulated = std::ssize(judge.simulated());
  report.ruled_out = outcome->ruled_out;
  report.excluded = outcome->excluded;
  report.impossible = outcome->impossible;
  report.is_proved = outcome->is_proved;
  report.first_error = judge.first_error();
  if (const Status found = check_outcome(report, *outcome); !found)
    return tl::unexpected(found.error());
  warn_of_tokens(judge, report);
  for (std::string& warning : judge.warnings().texts())
    report.warnings.push_back(std::move(warning));
  std::optional<run::SweepPoint> point;
  if (outcome->best) point = judge.simulated().at(outcome->best->point);
  if (request.blocks) {
    auto found = search_blocks(*grid, request, judge, *outcome);
    if (!found) return tl::unexpected(found.error());
    report.blocks = std::move(found->search);
    if (found->best) point = std::move(found->best);
  }
  if (!point) {
    report.closest = miss_of(report, *grid, *outcome, judge);
    return report;
  }
  if (outcome->best && outcome->cost_floor)
    report.grid_gap = static_cast<double>(outcome->best->judgement.cost) /
                          static_cast<double>(std::max<std::int64_t>(*outcome->cost_floor, 1)) -
                      1;
  auto best = best_of(report, *grid, std::move(*point), *outcome, judge);
  if (!best) return tl::unexpected(best.error());
  report.best = std::move(*best);
  report.runners_up =
      runners_up(*grid, judge, outcome->judged, !report.blocks || !report.blocks->is_best);
  return report;
}

}  // namespace foregather::tasks
