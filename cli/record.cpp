#include "tasks/record.h"

#include <fmt/format.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <memory>

#include "cli/command.h"
#include "cli/summary_text.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

std::string text_of(const tasks::RecordProgress& progress) {
  return fmt::format("{} process{}, {} records, {} dropped, {}", progress.processes,
                     progress.processes == 1 ? "" : "es", format_count(progress.records),
                     format_count(progress.dropped), format_bytes(progress.bytes));
}

/// One line on a terminal that is written again and again; elsewhere nothing.
class RecordLine {
 public:
  ~RecordLine() { clear(); }
  void show(const tasks::RecordProgress& progress) {
    if (!is_terminal_) return;
    const auto now = std::chrono::steady_clock::now();
    const double passed = std::chrono::duration<double>(now - before_).count();
    const double rate = static_cast<double>(progress.records - records_) / passed;
    before_ = now;
    records_ = progress.records;
    const std::string line =
        fmt::format("\r\x1b[Kforegather: recording: {}, {} records/s", text_of(progress),
                    format_count(static_cast<std::int64_t>(rate)));
    std::fwrite(line.data(), 1, line.size(), stderr);
    is_shown_ = true;
  }
  void clear() {
    if (is_shown_) std::fputs("\r\x1b[K", stderr);
    is_shown_ = false;
  }

 private:
  bool is_terminal_ = ::isatty(STDERR_FILENO) == 1, is_shown_ = false;
  std::chrono::steady_clock::time_point before_ = std::chrono::steady_clock::now();
  std::int64_t records_ = 0;
};

int run_record(const tasks::RecordOptions& options) {
  RecordLine line;
  const auto recorded = tasks::record(
      options,
      [&](const std::string& text) {
        line.clear();
        complain(text);
      },
      [&](const tasks::RecordProgress& progress) { line.show(progress); });
  line.clear();
  if (!recorded) return give_up(recorded.error());
  if (!recorded->run) {
    complain(recorded->run.error().text());
    if (!recorded->raw_folder.empty())
      complain(fmt::format(
          "the raw recordings are kept: 'foregather import {}/*.sqlite -o RUN.db' makes the run",
          recorded->raw_folder));
    return recorded->exit_code != 0 ? recorded->exit_code : 1;
  }
  for (const std::string& warning : recorded->run->warnings) complain("warning: " + warning);
  for (const auto& [rank, clock] : recorded->run->clocks)
    complain(fmt::format("clock of rank {}: {}", rank,
                         clock ? "ahead by " + clock_text(*clock) : "not known"));
  complain(fmt::format("recorded {}; wrote {}", text_of(recorded->total), options.database));
  if (recorded->exit_code != 0)
    complain(fmt::format("the command ended with exit code {}", recorded->exit_code));
  return recorded->exit_code;
}

}  // namespace

Command record_command() {
  const auto options = std::make_shared<tasks::RecordOptions>();
  const auto output = std::make_shared<std::string>();
  Command command;
  command.name = "record";
  command.summary = "runs a command and records what its processes do on host and devices";
  command.description =
      "Runs a command (python, torchrun, mpirun, srun, a plain binary) unchanged, under an "
      "injected "
      "profiler: kernels, copies, fills and synchronisations of CUDA by CUPTI, calls of its "
      "runtime "
      "and driver, NVTX ranges, and NCCL's collectives with algorithm, protocol and channels. Each "
      "process writes a file of its own into RUN.db.raw, named by rank and host, which is one "
      "measured run at the end: the ranks' clocks are aligned by the collectives that they "
      "share.\n\n"
      "What is recorded is on the disk within a second: after a kill, 'foregather import "
      "RUN.db.raw/*.sqlite -o RUN.db' makes the run. Memory in a process is bounded (64 MB); what "
      "comes too fast is dropped and counted.\n\n"
      "CUPTI takes one profiler at a time: under nsys, or while torch.profiler is on, NVTX and "
      "NCCL "
      "are recorded and device work is not. The exit code is the command's.";
  command.options = {
      {"COMMAND", "", "behind '--': the command with its arguments", nullptr, nullptr,
       &options->command, true, true},
      {"-o,--output", "RUN.db",
       "the database that is written; run.db if not given, where no other file has that name",
       nullptr, output.get(), nullptr},
      {"--kinds", "LIST",
       "what is recorded: kernel, memcpy, memset, runtime, driver, sync, event, overhead, memory, "
       "external, graph, nvtx, nccl, nccl-steps. With + and - before the names they change the "
       "default, which is all but graph (CUDA graphs as wholes, without their nodes) and "
       "nccl-steps "
       "(each step of NCCL's proxies)",
       nullptr, &options->kinds, nullptr},
      {"--delay", "SECONDS", "records from that long after a process began", nullptr,
       &options->delay, nullptr},
      {"--duration", "SECONDS", "and for that long", nullptr, &options->duration, nullptr},
      {"--range", "NAME", "records while an NVTX range of that name is open", nullptr,
       &options->range, nullptr},
      {"--steps", "A..B", "records while one of the NVTX ranges ProfilerStep#A to B is open",
       nullptr, &options->steps, nullptr},
      {"--max-size", "BYTES", "each process stops recording at that size: 500MB, 2GiB, or in bytes",
       nullptr, &options->max_size, nullptr},
      {"--host-only", "", "records processes and NVTX ranges alone, without CUPTI and NCCL",
       &options->host_only, nullptr, nullptr},
  };
  command.examples = {
      "foregather record -- torchrun --nproc-per-node 8 train.py\trecords a job into run.db",
      "foregather record -o step.db --steps 10..12 -- python train.py\tthree steps alone",
      "foregather record --host-only -- ./program\tNVTX ranges on a machine without a GPU",
  };
  command.run = [options, output] {
    options->is_default = output->empty();
    if (!options->is_default) options->database = *output;
    return run_record(*options);
  };
  return command;
}

}  // namespace foregather::cli
