#include "tasks/sweep.h"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <new>
#include <tuple>
#include <utility>

#include "core/base/text.h"
#include "core/store/sweep_reader.h"
#include "core/store/sweep_writer.h"
#include "tasks/chunk_queue.h"
#include "tasks/outputs.h"
#include "tasks/parallel.h"
#include "tasks/point_warnings.h"
#include "tasks/sweep_ranks.h"

namespace foregather::tasks {
namespace {

// Points that are sorted by what they share, and held until all are done.
constexpr std::size_t kWindow = 16'384;
// Points that one thread takes at a time: few enough that all threads end together.
constexpr std::size_t kChunk = 8;
// Points that are looked at between reports, where conditions exclude most.
constexpr std::int64_t kReportEvery = 1 << 17;
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

class Runner {
 public:
  Runner(const SweepRequest& request, const SweepGrid& grid,
         const std::function<void(const SweepProgress&)>& progress, bool is_job)
      : grid_(grid),
        candidates_(request.source, grid.text),
        progress_(progress),
        workers_(request.jobs != 0 ? request.jobs
                 : is_job          ? 1
                                   : usual_threads()),
        begin_(request.shard.begin(grid.points().size())),
        end_(request.shard.end(grid.points().size())) {}

  // `writer` may be null: then rows go to `sink` as windows are done.
  Status run(store::SweepWriter* writer, run::SweepSink& sink, const runtime::ProcessJob* job) {
    counts.points = end_ - begin_;
    std::optional<SweepServer> server;
    if (job != nullptr)
      server.emplace(*job, sweep_tag(grid_),
                     [this](runtime::RankLink& link) { return serve(link); });
    const Status done = run_windows(writer, sink);
    queue_.close();
    if (server) counts.warnings = server->finish();
    const std::vector<std::string> texts = warnings_.texts();
    counts.warnings.insert(counts.warnings.end(), texts.begin(), texts.end());
    return done;
  }

  /// Has any point figures?
  bool has_predicted() const { return counts.predicted > progress_now_.failed; }

  SweepCounts counts;

 private:
  Status run_windows(store::SweepWriter* writer, run::SweepSink& sink) {
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

  Status fill_window(const store::SweepWriter* writer, std::int64_t& next) {
    items_.clear();
    for (; next < end_ && items_.size() < kWindow; ++next) {
      const std::vector<std::string> values = grid_.points().values(next);
      const auto holds = grid_.conditions.hold(values);
      if (!holds) return tl::unexpected(holds.error());
      if (next % kReportEvery == 0) report(static_cast<double>(next - begin_));
      if (!*holds) {
        ++counts.excluded;
        continue;
      }
      if (writer != nullptr && writer->present().contains(next)) {
        ++counts.present;
        continue;
      }
      const Candidate candidate = grid_.candidate(values);
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
    rank_.resize(items_.size());
    for (std::size_t i = 0; i < place.size(); ++i) rank_[place[i]] = i;
    writer_ = writer;
    from_ = from;
    to_ = to;
    done_ = 0;
    queue_.open(chunks_.size());
    in_parallel(workers_.size(), workers_.size(), [&](std::size_t, std::size_t thread) {
      while (const auto number = queue_.take()) {
        predict_or_stop(chunks_[*number], workers_[thread]);
        queue_.done();
      }
    });
    if (is_out_of_memory_)
      failure_ = fail_work(grid_.request.source, "out of memory: use fewer threads (-j)");
  }

  // Others wait until the chunk is done, whatever becomes of it.
  void predict_or_stop(Chunk& chunk, Candidates::Worker& worker) {
    try {
      predict_chunk(chunk, worker);
    } catch (const std::bad_alloc&) {
      is_out_of_memory_ = true;
      stopped_ = true;
    }
  }

  void predict_chunk(Chunk& chunk, Candidates::Worker& worker) {
    for (std::size_t i = chunk.first; i < chunk.last && !stopped_; ++i)
      points_[rank_[i]] = predict_point(grid_, items_[i].index, candidates_, *chunk.group, worker);
    if (!stopped_) note_chunk(chunk);
  }

  // Another rank predicts until there is no more work, or it is lost.
  bool serve(runtime::RankLink& link) {
    while (const auto number = queue_.take_of_any()) {
      Chunk& chunk = chunks_[*number];
      std::vector<std::int64_t> indices;
      for (std::size_t i = chunk.first; i < chunk.last; ++i) indices.push_back(items_[i].index);
      std::vector<run::SweepPoint> points;
      if (!stopped_ && !ask(link, indices, points)) {
        queue_.give_back(*number);
        return false;
      }
      if (!stopped_) {
        for (std::size_t i = chunk.first; i < chunk.last; ++i)
          points_[rank_[i]] = std::move(points[i - chunk.first]);
        note_chunk(chunk);
      }
      queue_.done();
    }
    return link.send({});
  }

  void note_chunk(Chunk& chunk) {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = chunk.first; i < chunk.last; ++i) note(points_[rank_[i]], writer_);
    chunk.group.reset();
    done_ += chunk.last - chunk.first;
    const double share = static_cast<double>(done_) / static_cast<double>(items_.size());
    report(static_cast<double>(from_ - begin_) + share * static_cast<double>(to_ - from_));
  }

  void note(run::SweepPoint& point, store::SweepWriter* writer) {
    ++counts.predicted;
    warnings_.add(std::exchange(point.warnings, {}));
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

  const SweepGrid& grid_;
  Candidates candidates_;
  const std::function<void(const SweepProgress&)>& progress_;
  std::vector<Candidates::Worker> workers_;  // by thread
  std::int64_t begin_, end_;
  std::vector<Item> items_;
  std::vector<Chunk> chunks_;
  std::vector<run::SweepPoint> points_;  // of the window, in order
  std::vector<std::size_t> rank_;        // by item: its place there
  store::SweepWriter* writer_ = nullptr;
  std::int64_t from_ = 0, to_ = 0;  // the window
  ChunkQueue queue_;
  std::mutex mutex_;      // of what follows
  std::size_t done_ = 0;  // items of the window
  SweepProgress progress_now_;
  PointWarnings warnings_;
  Status failure_;
  std::atomic<bool> stopped_ = false, is_out_of_memory_ = false;
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

// Those of a range.
Status copy_rows(const std::string& path, std::int64_t begin, std::int64_t end,
                 run::SweepSink& sink) {
  auto reader = store::SweepReader::open(path);
  if (!reader) return tl::unexpected(reader.error());
  while (true) {
    auto point = reader->next();
    if (!point) return tl::unexpected(point.error());
    if (!*point) return {};
    if ((*point)->index < begin || (*point)->index >= end) continue;
    if (const Status added = sink.add(**point); !added) return added;
  }
}

// Of a shard this is a warning: others may have better points.
Status check_counts(SweepCounts& counts, const sim::Shard& shard) {
  if (counts.fits + counts.out_of_memory > 0) return {};
  const bool is_empty = counts.failed == 0;
  if (shard.of > 1) {
    const std::string part = fmt::format("shard {} of {}", shard.number, shard.of);
    counts.warnings.push_back(
        is_empty ? part + " has no points"
                 : fmt::format("none of the {} points of {} can be predicted; the first one: {}",
                               format_count(counts.failed), part, counts.first_error));
    return {};
  }
  if (is_empty)
    return fail_at("--where", "none of {} points meets the conditions",
                   format_count(counts.points));
  return fail("none of {} points can be predicted; the first one: {}", format_count(counts.failed),
              counts.first_error);
}

}  // namespace

Result<Sweep> Sweep::open(const SweepRequest& request) {
  if (request.resume && request.database.empty())
    return fail_at("--resume", "goes on with a database: expected -o SWEEP.db");
  auto grid = SweepGrid::read(request);
  if (!grid) return tl::unexpected(grid.error());
  const std::int64_t points =
      request.shard.end(grid->points().size()) - request.shard.begin(grid->points().size());
  if (points > kMostAtOnce)
    return fail(
        "{} points at once are too many, expected at most {}: vary less, or share them "
        "by --shard",
        format_count(points), format_count(kMostAtOnce));
  std::vector<std::string> outputs;
  for (const std::string& path : {request.database, request.picture})
    if (!path.empty()) outputs.push_back(path);
  if (const Status apart = check_outputs(outputs, grid->files); !apart)
    return tl::unexpected(apart.error());
  return Sweep(request, std::move(*grid));
}

Status Sweep::work_for(const runtime::ProcessJob& job) const {
  return work_for_rank_0(grid_, job, request_.jobs == 0 ? 1 : request_.jobs);
}

Result<SweepCounts> Sweep::run(run::SweepSink& sink,
                               const std::function<void(const SweepProgress&)>& progress,
                               const runtime::ProcessJob* job) const {
  std::optional<store::SweepWriter> writer;
  if (!request_.database.empty()) {
    auto opened = request_.resume ? store::SweepWriter::resume(request_.database, info())
                                  : store::SweepWriter::create(request_.database, info());
    if (!opened) return tl::unexpected(opened.error());
    writer.emplace(std::move(*opened));
  }
  Runner runner(request_, grid_, progress, job != nullptr);
  CountingSink counted(sink, runner.counts);
  Status done = runner.run(writer ? &*writer : nullptr, counted, job);
  if (writer) {
    const Status finished = writer->finish();
    if (done) done = finished;
    const std::int64_t points = grid_.points().size();
    if (done)
      done = copy_rows(request_.database, request_.shard.begin(points), request_.shard.end(points),
                       counted);
  }
  if (done) done = check_counts(runner.counts, request_.shard);
  const SweepCounts& counts = runner.counts;
  if (!done) {
    const bool is_of_use = runner.has_predicted() || counts.present != 0;
    if (writer && !is_of_use && done.error().fault == Fault::input) writer->abandon();
    return tl::unexpected(done.error());
  }
  return runner.counts;
}

}  // namespace foregather::tasks
