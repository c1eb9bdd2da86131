#include "tasks/sweep.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "cli/command.h"
#include "cli/hardware.h"
#include "cli/progress.h"
#include "cli/sweep_text.h"
#include "cli/terminal.h"
#include "core/base/file.h"
#include "core/base/last_words.h"
#include "core/base/printable.h"
#include "tasks/keys.h"
#include "tasks/pareto.h"
#include "tasks/sweep_rows.h"

namespace foregather::cli {
namespace {

struct SweepArguments {
  std::string source, hardware, jobs, shard, database, svg;
  std::vector<std::string> vary, sets, what_if, where;
  bool pareto = false, resume = false, csv = false, jsonl = false;
};

Result<tasks::SweepRequest> request_of(const SweepArguments& arguments) {
  if (arguments.source.empty())
    return fail("SOURCE is missing: name a workload (.toml), or what else simulate takes");
  if (arguments.csv && arguments.jsonl)
    return fail("--csv and --jsonl are both given, expected one");
  tasks::SweepRequest request;
  request.source = arguments.source;
  request.vary = arguments.vary;
  auto sets = with_hardware(arguments.sets, arguments.hardware);
  if (!sets) return tl::unexpected(sets.error());
  request.sets = std::move(*sets);
  request.what_if = arguments.what_if;
  request.where = arguments.where;
  request.database = arguments.database;
  request.picture = arguments.svg;
  request.resume = arguments.resume;
  if (!arguments.shard.empty()) {
    const auto shard = sim::parse_shard(arguments.shard);
    if (!shard) return tl::unexpected(shard.error());
    request.shard = *shard;
  }
  if (!arguments.jobs.empty()) {
    constexpr std::uint32_t kMostJobs = 1024;
    const std::string& text = arguments.jobs;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), request.jobs);
    if (error != std::errc() || end != text.data() + text.size() || request.jobs == 0 ||
        request.jobs > kMostJobs)
      return fail_at("-j " + text, "expected a number of threads from 1 to {}", kMostJobs);
  }
  return request;
}

void show(ProgressLine& line, const tasks::SweepProgress& progress) {
  const double seconds = std::max(line.seconds(), 1e-3);
  line.show(progress.share, [&] {
    return fmt::format("{} points, {:.0f}/s, {} failed", progress.done,
                       static_cast<double>(progress.done) / seconds, progress.failed);
  });
}

// What is printed of the rows, as they come and at the end.
class Report final : public run::SweepSink {
 public:
  Report(const SweepArguments& arguments, const run::SweepInfo& info)
      : arguments_(arguments),
        info_(info),
        streams_((arguments.csv || arguments.jsonl) && !arguments.pareto) {
    if (streams_) text_ = header();
  }

  Status add(const run::SweepPoint& point) override {
    if (arguments_.pareto || !arguments_.svg.empty()) front_.add(point);
    if (streams_) {
      constexpr std::size_t kFlushAt = 1 << 16;
      text_ += line(point);
      has_rows_ = true;
      return text_.size() < kFlushAt ? Status{} : flush();
    }
    if (point.status != run::PointStatus::fits || !point.figures.times) return {};
    const auto slower = std::ranges::upper_bound(
        fastest_, point.figures.times->step, {},
        [](const run::SweepPoint& each) { return each.figures.times->step; });
    fastest_.insert(slower, point);
    if (fastest_.size() > kShown) fastest_.pop_back();
    return {};
  }

  /// Standard output takes no more, and the user knows.
  bool is_cut() const { return is_cut_; }

  /// The rows that came before a failure, none of them left out.
  void give_rows() {
    if (has_rows_) static_cast<void>(flush());
  }

  int finish(const tasks::SweepCounts& counts) {
    if (!arguments_.svg.empty())
      if (const Status written = write_svg(); !written) return give_up(written.error());
    if (streams_) return flush() ? 0 : 1;
    if (!arguments_.pareto) return print(table(counts));
    const std::vector<run::SweepPoint> front = front_.points();
    if (!arguments_.csv && !arguments_.jsonl)
      return print(counts_text(counts) + (front.empty() ? "" : front_text(front)));
    text_ = header();
    for (const run::SweepPoint& point : front) text_ += line(point);
    return print_json(text_);
  }

 private:
  static constexpr std::size_t kShown = 20;

  std::string header() const { return arguments_.csv ? tasks::csv_header(info_) : std::string(); }
  std::string line(const run::SweepPoint& point) const {
    return arguments_.csv ? tasks::csv_line(point) : tasks::json_line(info_, point);
  }
  Status flush() {
    is_cut_ = print_json(text_) != 0;  // which says why
    text_.clear();
    return is_cut_ ? fail_work("standard output", "is not complete") : Status{};
  }
  std::string table(const tasks::SweepCounts& counts) const {
    std::string text = counts_text(counts);
    if (fastest_.empty()) return text;
    text += fastest_.size() == 1 ? "\nThe one that fits:\n"
                                 : fmt::format("\nThe {} fastest that fit:\n", fastest_.size());
    return text + points_table(info_, fastest_);
  }
  std::string front_text(const std::vector<run::SweepPoint>& front) const {
    return fmt::format("\nPareto front, {} point{}:\n", front.size(),
                       front.size() == 1 ? "" : "s") +
           points_table(info_, front);
  }
  Status write_svg() const {
    const std::vector<run::SweepPoint> front = front_.points();
    if (front.empty())
      complain(fmt::format("warning: no point fits: {} shows none", arguments_.svg));
    auto file = PendingFile::create(arguments_.svg);
    if (!file) return tl::unexpected(file.error());
    return file->write(tasks::pareto_svg(info_, front)).and_then([&] { return file->commit(); });
  }

  const SweepArguments& arguments_;
  const run::SweepInfo& info_;
  bool streams_;
  bool has_rows_ = false;  ///< of the stream
  bool is_cut_ = false;
  std::string text_;
  tasks::PointFront front_;
  std::vector<run::SweepPoint> fastest_;
};

// Where the line of progress was, and how to go on.
std::string words_when_stopped(const std::string& database) {
  const std::string line = ::isatty(STDERR_FILENO) != 0 ? "\r\033[K" : "";
  return database.empty() ? line
                          : fmt::format(
                                "{}foregather: stopped: the same command with --resume goes on "
                                "with {}\n",
                                line, printable(database));
}

int run_sweep(const SweepArguments& arguments) {
  const auto request = request_of(arguments);
  if (!request) return give_up(request.error());
  const auto sweep = tasks::Sweep::open(*request);
  if (!sweep) return give_up(sweep.error());
  const auto job = runtime::join_job(runtime::process_environment());
  if (!job) return give_up(job.error());
  if (*job && (*job)->place.rank != 0) {
    const Status worked = sweep->work_for(**job);
    return worked ? 0 : give_up(worked.error());
  }
  Report report(arguments, sweep->info());
  Result<tasks::SweepCounts> counts;
  {
    const WordsOnSignals words(words_when_stopped(arguments.database));
    ProgressLine line;
    counts = sweep->run(
        report, [&](const tasks::SweepProgress& progress) { show(line, progress); },
        *job ? &**job : nullptr);
  }
  if (report.is_cut()) return 1;
  if (!counts) {
    report.give_rows();
    return give_up(counts.error());
  }
  for (const std::string& warning : counts->warnings) complain("warning: " + warning);
  return report.finish(*counts);
}

std::vector<Option> options(SweepArguments& arguments) {
  return {
      {"SOURCE", "", "a workload (.toml), or anything else that simulate takes", nullptr,
       &arguments.source, nullptr},
      {"--vary", "KEY=V1,V2,…",
       "lets a key take each of these values; may be repeated: all combinations are points, the "
       "last key changes fastest. A value is a text, a range 1..8, 1..64*2 or 0.5..2+0.25, or "
       "nothing, which leaves the key as SOURCE has it (of allocator.conf: an empty text); in "
       "double quotes it may hold commas. KEY is a dotted key, hw, or what-if.PASS, whose values "
       "are the pass's arguments: on is the pass without any, off or nothing no pass",
       nullptr, nullptr, &arguments.vary},
      {"--where", "EXPR",
       "takes only points that meet a condition, such as 'parallel.world_size % 8 == 0 && "
       "train.micro_batch * train.seq_len <= 16384'; may be repeated. Keys that do not vary have "
       "the value of --set or SOURCE",
       nullptr, nullptr, &arguments.where},
      {"--set", "KEY=VALUE", "sets a key for all points, as in simulate", nullptr, nullptr,
       &arguments.sets},
      {"--hw", "HW", "the hardware of all points, as in simulate", nullptr, &arguments.hardware,
       nullptr},
      {"--what-if", "PASS", "applies a pass to all points, before those that vary", nullptr,
       nullptr, &arguments.what_if},
      {"-j,--jobs", "N", "threads; otherwise as many as there are processors. Rows are the same",
       nullptr, &arguments.jobs, nullptr},
      {"--shard", "I/N",
       "takes only the I-th of N parts of the grid, I from 1: merge joins their databases", nullptr,
       &arguments.shard, nullptr},
      {"-o,--output", "SWEEP.db",
       "keeps every row, a few times a second; what is in it survives a kill", nullptr,
       &arguments.database, nullptr},
      {"--resume", "", "goes on with the database: predicts only the points that it has not",
       &arguments.resume, nullptr, nullptr},
      {"--pareto", "",
       "prints only points that fit and that no other one beats in step time, reserved memory, "
       "GPUs and GPU time per token",
       &arguments.pareto, nullptr, nullptr},
      {"--svg", "OUT.svg",
       "draws these points, step time against memory, or against GPUs where no memory is known",
       nullptr, &arguments.svg, nullptr},
      {"--csv", "", "prints all rows as CSV: times in ns, sizes in bytes", &arguments.csv, nullptr,
       nullptr},
      {"--jsonl", "", "prints all rows as JSON, an object a line", &arguments.jsonl, nullptr,
       nullptr},
  };
}

}  // namespace

Command sweep_command() {
  const auto arguments = std::make_shared<SweepArguments>();
  Command command;
  command.name = "sweep";
  command.summary = "predicts every combination of settings";
  command.description =
      "Predicts a step for each combination of values, as simulate would, and says which fit and "
      "which are fastest. What points share is worked out once. A combination that cannot be is a "
      "row with its error.\n\nRows are in the order of the grid, whatever the number of threads.";
  command.options = options(*arguments);
  command.examples = {
      "foregather sweep traces/samples/llama3_8b_fsdp2.toml --vary train.micro_batch=1..8*2 --vary "
      "train.activation_checkpointing=none,selective,full\twhat fits, and what is fastest",
      "foregather sweep w.toml --vary hw=h100_sxm,a100_80_sxm --vary parallel.world_size=8..512*2 "
      "--pareto --svg front.svg\twhich GPU, and how many",
      "foregather sweep w.toml --vary allocator.conf=,expandable_segments:True --vary "
      "what-if.limit-all-gathers=,2,4 --csv\tan allocator's configuration and a pass",
      "foregather sweep w.toml --vary train.seq_len=1024..16384+1024 --shard 3/16 -o part3.db "
      "--resume\tthe third job of sixteen, however often it is started",
  };
  command.run = [arguments] { return run_sweep(*arguments); };
  return command;
}

}  // namespace foregather::cli
