#include "tasks/sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <tuple>

#include "core/base/text.h"
#include "core/store/sweep_reader.h"
#include "core/store/sweep_writer.h"
#include "sim/passes/registry.h"
#include "tasks/parallel.h"
#include "tasks/version.h"

namespace foregather::tasks {
namespace {

// Points that are sorted by what they share, and held until all are done.
constexpr std::size_t kWindow = 16'384;
// Points that one thread takes at a time: few enough that all threads end together.
constexpr std::size_t kChunk = 8;
// A day on a fast machine.
constexpr std::int64_t kMostAtOnce = 100'000'000;

struct Item {
  std::int64_t index = 0;
  std::string schedule;  // Candidates::schedule_key()
  std::string rest;      // what else it changes
};

struct Chunk {
  std::size_t first = 0, last = 0;  // of the window's items
  std::shared_ptr<CandidateGroup> group;
};

std::string options_text(const SweepRequest& request) {
  std::string text;
  for (const std::string& set : request.sets) text += "--set " + set + "\n";
  for (const std::string& pass : request.what_if) text += "--what-if " + pass + "\n";
  for (const std::string& condition : request.where) text += "--where " + condition + "\n";
  return text;
}

class Runner {
 public:
  Runner(const SweepRequest& request, const SweepAxes& axes, const SweepConditions& conditions,
         std::optional<std::string> text, const std::function<void(const SweepProgress&)>& progress)
      : request_(request),
        axes_(axes),
        conditions_(conditions),
        candidates_(request.source, std::move(text)),
        progress_(progress),
        workers_(request.jobs == 0 ? usual_threads() : request.jobs),
        begin_(request.shard.begin(axes.grid().size())),
        end_(request.shard.end(axes.grid().size())) {}

  // `writer` may be null: then rows go to `sink` as windows are done.
  Status run(store::SweepWriter* writer, run::SweepSink& sink) {
    counts.points = end_ - begin_;
    for (std::int64_t next = begin_; next < end_;) {
      const std::int64_t from = next;
      if (const Status filled = fill_window(writer, next); !filled) return filled;
      predict_window(writer, from, next);
      if (!failure_) return failure_;
      for (std::size_t i = 0; writer == nullptr && i < points_.size(); ++i)
        if (const Status added = sink.add(points_[i]); !added) return added;
    }
    return {};
  }

  SweepCounts counts;

 private:
  Candidate candidate_of(const std::vector<std::string>& values) const {
    Candidate candidate{request_.sets, request_.what_if};
    axes_.apply(values, candidate);
    return candidate;
  }

  Status fill_window(const store::SweepWriter* writer, std::int64_t& next) {
    items_.clear();
    for (; next < end_ && items_.size() < kWindow; ++next) {
      const std::vector<std::string> values = axes_.grid().values(next);
      const auto holds = conditions_.hold(values);
      if (!holds) return tl::unexpected(holds.error());
      if (!*holds) {
        ++counts.excluded;
        continue;
      }
      if (writer != nullptr && writer->present().contains(next)) {
        ++counts.present;
        continue;
      }
      const Candidate candidate = candidate_of(values);
      Item item{next, Candidates::schedule_key(candidate), {}};
      for (const std::string& pass : candidate.what_if) item.rest += pass + '\n';
      for (const std::string& set : candidate.sets)
        if (is_price_key(set.substr(0, set.find('=')))) item.rest += set + '\n';
      items_.push_back(std::move(item));
    }
    return {};
  }

  void cut_chunks() {
    std::ranges::sort(items_, {}, [](const Item& item) {
      return std::tie(item.schedule, item.rest, item.index);
    });
    chunks_.clear();
    for (std::size_t i = 0; i < items_.size(); ++i) {
      const bool is_like = i > 0 && items_[i].schedule == items_[i - 1].schedule;
      if (!is_like || i - chunks_.back().first == kChunk)
        chunks_.push_back(
            {i, i, is_like ? chunks_.back().group : std::make_shared<CandidateGroup>()});
      chunks_.back().last = i + 1;
    }
  }

  void predict_window(store::SweepWriter* writer, std::int64_t from, std::int64_t to) {
    cut_chunks();
    points_.clear();
    points_.resize(items_.size());
    std::vector<std::size_t> place(items_.size());  // in order of their number
    for (std::size_t i = 0; i < place.size(); ++i) place[i] = i;
    std::ranges::sort(place, {}, [&](std::size_t i) { return items_[i].index; });
    std::vector<std::size_t> rank(items_.size());
    for (std::size_t i = 0; i < place.size(); ++i) rank[place[i]] = i;
    std::size_t done = 0;
    const auto predict_chunk = [&](std::size_t number, std::size_t thread) {
      Chunk& chunk = chunks_[number];
      for (std::size_t i = chunk.first; i < chunk.last && !stopped_; ++i)
        points_[rank[i]] = predict(items_[i].index, *chunk.group, workers_[thread]);
      if (stopped_) return;
      const std::lock_guard lock(mutex_);
      for (std::size_t i = chunk.first; i < chunk.last; ++i) note(points_[rank[i]], writer);
      chunk.group.reset();
      done += chunk.last - chunk.first;
      const double share = static_cast<double>(done) / static_cast<double>(items_.size());
      report(static_cast<double>(from - begin_) + share * static_cast<double>(to - from));
    };
    in_parallel(chunks_.size(), workers_.size(), predict_chunk);
  }

  run::SweepPoint predict(std::int64_t index, CandidateGroup& group, Candidates::Worker& worker) {
    run::SweepPoint point;
    point.index = index;
    point.values = axes_.grid().values(index);
    auto figures = candidates_.predict(candidate_of(point.values), group, worker);
    if (!figures) {
      point.error = figures.error().text();
      return point;
    }
    const bool out_of_memory = figures->memory && figures->memory->oom_bytes;
    point.status = out_of_memory ? run::PointStatus::out_of_memory : run::PointStatus::fits;
    point.figures = std::move(*figures);
    return point;
  }

  void note(const run::SweepPoint& point, store::SweepWriter* writer) {
    ++counts.predicted;
    progress_now_.done = counts.predicted;
    progress_now_.failed += point.status == run::PointStatus::failed ? 1 : 0;
    if (writer == nullptr || !failure_) return;
    failure_ = writer->add(point);
    if (!failure_) stopped_ = true;
  }

  void report(double behind) {
    progress_now_.share = behind / static_cast<double>(end_ - begin_);
    progress_(progress_now_);
  }

  const SweepRequest& request_;
  const SweepAxes& axes_;
  const SweepConditions& conditions_;
  Candidates candidates_;
  const std::function<void(const SweepProgress&)>& progress_;
  std::vector<Candidates::Worker> workers_;  // by thread
  std::int64_t begin_, end_;
  std::vector<Item> items_;
  std::vector<Chunk> chunks_;
  std::vector<run::SweepPoint> points_;  // of the window, in order
  std::mutex mutex_;                     // of what follows
  SweepProgress progress_now_;
  Status failure_;
  std::atomic<bool> stopped_ = false;
};

// Counts rows on their way.
class CountingSink final : public run::SweepSink {
 public:
  CountingSink(run::SweepSink& sink, SweepCounts& counts) : sink_(sink), counts_(counts) {}

  Status add(const run::SweepPoint& point) override {
    switch (point.status) {
      case run::PointStatus::fits: ++counts_.fits; break;
      case run::PointStatus::out_of_memory: ++counts_.out_of_memory; break;
      case run::PointStatus::failed:
        if (++counts_.failed == 1) counts_.first_error = point.error;
        break;
    }
    return sink_.add(point);
  }

 private:
  run::SweepSink& sink_;
  SweepCounts& counts_;
};

Status copy_rows(const std::string& path, run::SweepSink& sink) {
  auto reader = store::SweepReader::open(path);
  if (!reader) return tl::unexpected(reader.error());
  while (true) {
    auto point = reader->next();
    if (!point) return tl::unexpected(point.error());
    if (!*point) return {};
    if (const Status added = sink.add(**point); !added) return added;
  }
}

Status check_counts(const SweepCounts& counts, const SweepRequest& request) {
  if (counts.fits + counts.out_of_memory + counts.failed == 0)
    return request.where.empty() ? fail("there is no point: this shard of the grid is empty")
                                 : fail_at("--where", "none of {} points meets the conditions",
                                           format_count(counts.points));
  if (counts.fits + counts.out_of_memory > 0) return {};
  return fail("none of {} points can be predicted; the first one: {}", format_count(counts.failed),
              counts.first_error);
}

}  // namespace

Result<Sweep> Sweep::open(const SweepRequest& request) {
  if (request.resume && request.database.empty())
    return fail_at("--resume", "goes on with a database: expected -o SWEEP.db");
  auto text = workload_text(request.source);
  if (!text) return tl::unexpected(text.error());
  auto axes = SweepAxes::read(request.vary);
  if (!axes) return tl::unexpected(axes.error());
  if (const Status checked = check_sets(request.sets); !checked)
    return tl::unexpected(checked.error());
  if (const auto passes = sim::parse_passes(request.what_if); !passes)
    return tl::unexpected(passes.error());
  const std::int64_t points =
      request.shard.end(axes->grid().size()) - request.shard.begin(axes->grid().size());
  if (points > kMostAtOnce)
    return fail(
        "{} points at once are too many, expected at most {}: vary less, or share them "
        "by --shard",
        format_count(points), format_count(kMostAtOnce));
  auto conditions =
      SweepConditions::read(request.where, *axes, request.sets, *text, request.source);
  if (!conditions) return tl::unexpected(conditions.error());
  Sweep sweep(request, std::move(*axes), std::move(*conditions));
  sweep.text_ = std::move(*text);
  sweep.info_.tool = version();
  sweep.info_.source = request.source;
  sweep.info_.source_text = sweep.text_.value_or("");
  sweep.info_.options = options_text(request);
  for (const sim::Axis& axis : sweep.axes_.grid().axes())
    sweep.info_.axes.emplace_back(axis.key(), axis.written());
  sweep.info_.points = sweep.axes_.grid().size();
  return sweep;
}

Result<SweepCounts> Sweep::run(run::SweepSink& sink,
                               const std::function<void(const SweepProgress&)>& progress) const {
  std::optional<store::SweepWriter> writer;
  if (!request_.database.empty()) {
    auto opened = request_.resume ? store::SweepWriter::resume(request_.database, info_)
                                  : store::SweepWriter::create(request_.database, info_);
    if (!opened) return tl::unexpected(opened.error());
    writer.emplace(std::move(*opened));
  }
  Runner runner(request_, axes_, conditions_, text_, progress);
  CountingSink counted(sink, runner.counts);
  Status done = runner.run(writer ? &*writer : nullptr, counted);
  if (writer) {
    const Status finished = writer->finish();
    if (done) done = finished;
    if (done) done = copy_rows(request_.database, counted);
  }
  if (done) done = check_counts(runner.counts, request_);
  if (!done) return tl::unexpected(done.error());
  return runner.counts;
}

}  // namespace foregather::tasks
