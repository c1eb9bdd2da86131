#include "tasks/sweep_ranks.h"

#include <chrono>
#include <cstring>
#include <memory>
#include <optional>

#include "core/base/sha256.h"
#include "tasks/parallel.h"
#include "tasks/point_message.h"

namespace foregather::tasks {
namespace {

using std::chrono::steady_clock;
constexpr auto kLatePatience = std::chrono::seconds(10);  // for ranks that come late
constexpr Ns kReach = 60 * kSecond;

std::string listed(const std::set<std::uint32_t>& ranks) {
  std::string text;
  for (const std::uint32_t rank : ranks)
    text += fmt::format("{}{}", text.empty() ? "" : ", ", rank);
  return text;
}

// One thread of a rank.
class RankWorker {
 public:
  RankWorker(const SweepGrid& grid, Candidates& candidates)
      : grid_(grid), candidates_(candidates) {}

  /// False: rank 0 went away.
  bool run(runtime::RankLink& link) {
    while (const auto request = link.receive()) {
      if (request->empty()) return true;
      std::vector<std::int64_t> indices(request->size() / sizeof(std::int64_t));
      std::memcpy(indices.data(), request->data(), indices.size() * sizeof(std::int64_t));
      std::vector<run::SweepPoint> points;
      for (const std::int64_t index : indices) points.push_back(predict(index));
      if (!link.send(message_of(points))) return false;
    }
    return false;
  }

 private:
  run::SweepPoint predict(std::int64_t index) {
    std::string schedule = Candidates::schedule_key(grid_.candidate(grid_.points().values(index)));
    if (!group_ || schedule != schedule_) {
      group_ = std::make_unique<CandidateGroup>();
      schedule_ = std::move(schedule);
    }
    return predict_point(grid_, index, candidates_, *group_, worker_);
  }

  const SweepGrid& grid_;
  Candidates& candidates_;
  Candidates::Worker worker_;
  std::string schedule_;
  std::unique_ptr<CandidateGroup> group_;  // of that schedule
};

}  // namespace

std::string sweep_tag(const SweepGrid& grid) {
  Sha256 digest;
  const auto add = [&](const std::string& text) {
    digest.update(fmt::format("{}\n", text.size()));
    digest.update(text);
  };
  for (const std::string* text : {&grid.info.tool, &grid.info.source_text, &grid.info.options})
    add(*text);
  for (const auto* pairs : {&grid.info.axes, &grid.info.inputs})
    for (const auto& [name, content] : *pairs) {
      add(name);
      add(content);
    }
  return digest.finish();
}

SweepServer::SweepServer(const runtime::ProcessJob& job, std::string tag,
                         std::function<bool(runtime::RankLink&)> serve)
    : job_(job),
      tag_(std::move(tag)),
      serve_(std::move(serve)),
      taking_([this] { take_links(); }) {}

SweepServer::~SweepServer() { finish(); }

void SweepServer::take_links() {
  std::optional<runtime::Time> end;
  while (true) {
    const auto now = steady_clock::now();
    if (is_ending_ && !end) end = now + kLatePatience;
    {
      const std::lock_guard lock(mutex_);
      if (end && (now >= *end || came_.size() + 1 == job_.place.world_size)) return;
    }
    auto link = runtime::next_link(job_, tag_, now + std::chrono::milliseconds(100));
    if (!link) continue;
    const std::lock_guard lock(mutex_);
    came_.insert(link->rank());
    serving_.emplace_back([this, link = std::move(*link)]() mutable {
      if (serve_(link)) return;
      const std::lock_guard noted(mutex_);
      lost_.insert(link.rank());
    });
  }
}

std::vector<std::string> SweepServer::finish() {
  if (!taking_.joinable()) return {};
  is_ending_ = true;
  taking_.join();
  for (std::thread& each : serving_) each.join();
  std::vector<std::string> warnings;
  if (!lost_.empty())
    warnings.push_back(fmt::format(
        "rank {} went away: what it had not answered was predicted by others", listed(lost_)));
  std::set<std::uint32_t> absent;
  for (std::uint32_t rank = 1; rank < job_.place.world_size; ++rank)
    if (!came_.contains(rank)) absent.insert(rank);
  if (!absent.empty()) warnings.push_back(fmt::format("rank {} never came", listed(absent)));
  return warnings;
}

Status work_for_rank_0(const SweepGrid& grid, const runtime::ProcessJob& job, std::size_t threads) {
  auto first = runtime::link_to_rank_0(job, sweep_tag(grid), kReach);
  if (!first) return tl::unexpected(first.error());
  Candidates candidates(grid.request.source, grid.text);
  std::atomic<bool> is_gone = false;
  const auto work = [&](runtime::RankLink& link) {
    if (!RankWorker(grid, candidates).run(link)) is_gone = true;
  };
  in_parallel(threads, threads, [&](std::size_t i, std::size_t) {
    if (i == 0) return work(*first);
    // Where rank 0 is done already, there is nothing to do.
    auto link = runtime::link_to_rank_0(job, sweep_tag(grid), 0);
    if (link) work(*link);
  });
  if (is_gone) return fail_work("", "rank 0 went away before it had all points");
  return {};
}

bool ask(runtime::RankLink& link, const std::vector<std::int64_t>& indices,
         std::vector<run::SweepPoint>& points) {
  const std::string request(reinterpret_cast<const char*>(indices.data()),
                            indices.size() * sizeof(std::int64_t));
  if (!link.send(request)) return false;
  const auto answer = link.receive();
  auto received = answer ? points_of(*answer) : std::nullopt;
  if (!received || received->size() != indices.size()) return false;
  for (std::size_t i = 0; i < indices.size(); ++i)
    if ((*received)[i].index != indices[i]) return false;
  points = std::move(*received);
  return true;
}

}  // namespace foregather::tasks
