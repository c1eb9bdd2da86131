#include "traces/chrome.h"

#include <algorithm>

#include "core/base/json_writer.h"
#include "core/run/arrows.h"
#include "core/run/key.h"
#include "traces/chrome_counters.h"

namespace foregather::traces {
namespace {

using run::OpRow;

class PartWriter {
 public:
  PartWriter(run::RunView run, const ChromeNames& names, const ChromeTracks& tracks,
             const ChromePart& part, Ns shift, const TextSink& sink)
      : run_(run), names_(names), tracks_(tracks), part_(part), events_(sink, shift) {}

  Status write() {
    head();
    for (std::uint32_t p = 0; p < tracks_.processes().size(); ++p)
      if (is_part(tracks_.processes()[p].rank_class)) process(p);
    for (const ChromeTracks::Thread& thread : tracks_.threads())
      if (is_part(tracks_.processes()[thread.track.process - 1].rank_class)) name(thread);
    for (std::size_t s = 0; s < run_.steps.size(); ++s)
      if (is_part(run_.steps[s].rank_class)) step(run::StepRow(s));
    for (std::size_t c = 0; c < run_.calls.size() && !events_.failed(); ++c)
      if (is_part(run_.threads[run_.calls[c].thread.row()].rank_class)) call(run::HostCallRow(c));
    for_each_op([&](OpRow row) { op(row); });
    run::GatherArrows gathers(run_);
    for_each_op([&](OpRow row) {
      if (const auto wait = wait_arrow(run_, row); wait && is_part(class_of(wait->from)))
        arrow(*wait, "wait", run::name(run_.ops.reason[row.row()]));
      if (const auto gather = gathers.to(row)) arrow(*gather, "gather", "gathered");
    });
    for (std::size_t c = 0; c < run_.classes.size(); ++c)
      if (is_part(run::ClassRow(c)))
        write_counters(run_, run::ClassRow(c), tracks_.first(run::ClassRow(c)), events_);
    for (const run::FailureRecord& failure : run_.failures)
      if (is_part(run_.steps[failure.step.row()].rank_class)) out_of_memory(failure);
    events_.text("\n]}\n");
    return events_.finish();
  }

 private:
  bool is_part(run::ClassRow row) const { return !part_.rank_class || part_.rank_class == row; }
  run::ClassRow class_of(OpRow row) const {
    return run_.steps[run_.ops.step[row.row()].row()].rank_class;
  }

  template <class Visit>
  void for_each_op(const Visit& visit) {
    for (std::size_t s = 0; s < run_.steps.size(); ++s) {
      if (!is_part(run_.steps[s].rank_class)) continue;
      const run::OpSpan ops = run::ops_of(run_, run::StepRow(s));
      for (std::size_t row = ops.first; row < ops.last && !events_.failed(); ++row)
        visit(OpRow(row));
    }
  }

  // HolisticTraceAnalysis finds the rank in the text, by "rank", a colon and a space.
  void head() {
    const bool is_one = part_.rank_class || run_.classes.size() == 1;
    const std::size_t first = part_.rank_class ? part_.rank_class->row() : 0;
    const std::string rank =
        is_one ? fmt::format("\"rank\": {}, ", run_.classes[first].ranks.front()) : "";
    std::string devices;
    for (const ChromeTracks::Process& process : tracks_.processes()) {
      if (!is_part(process.rank_class)) continue;
      devices += fmt::format("{}{{\"id\": {}, \"name\": {}", devices.empty() ? "" : ", ",
                             process.device, json_quote(run_.about.hardware));
      if (run_.about.capacity > 0)
        devices += fmt::format(", \"totalGlobalMem\": {}", run_.about.capacity);
      devices += '}';
    }
    events_.text(fmt::format(
        "{{\"schemaVersion\": 1, \"displayTimeUnit\": \"ns\",\n\"distributedInfo\": {{{}"
        "\"world_size\": {}}},\n\"deviceProperties\": [{}],\n\"otherData\": {{\"tool\": {}, "
        "\"run\": {}, \"kind\": \"{}\", \"source\": {}, \"hardware\": {}, \"strategy\": {}}},\n"
        "\"traceEvents\": [",
        rank, run_.about.world_size, devices, json_quote(run_.about.tool),
        json_quote(run_.about.name), run::name(run_.about.kind), json_quote(run_.about.source),
        json_quote(run_.about.hardware), json_quote(run_.about.strategy)));
  }

  void process(std::uint32_t row) {
    events_.event(
        FMT_COMPILE(R"("ph":"M","pid":{},"tid":1,"name":"process_name","args":{{"name":{}}})"),
        row + 1, json_quote(tracks_.processes()[row].name));
    events_.event(FMT_COMPILE(R"("ph":"M","pid":{},"tid":1,"name":"process_sort_index",)"
                              R"("args":{{"sort_index":{}}})"),
                  row + 1, row + 1);
  }

  void name(const ChromeTracks::Thread& thread) {
    events_.event(
        FMT_COMPILE(R"("ph":"M","pid":{},"tid":{},"name":"thread_name","args":{{"name":{}}})"),
        thread.track.process, thread.track.thread, json_quote(thread.name));
    events_.event(FMT_COMPILE(R"("ph":"M","pid":{},"tid":{},"name":"thread_sort_index",)"
                              R"("args":{{"sort_index":{}}})"),
                  thread.track.process, thread.track.thread, thread.track.thread);
  }

  // `name` and `arguments` are JSON text; a comma behind the last argument is left out.
  void slice(ChromeTrack track, std::string_view category, std::string_view name, Ns begin, Ns end,
             std::string_view arguments) {
    if (arguments.ends_with(',')) arguments.remove_suffix(1);
    events_.event(
        FMT_COMPILE(
            R"("ph":"X","cat":"{}","name":"{}","pid":{},"tid":{},"ts":{},"dur":{},"args":{{{}}})"),
        category, name, track.process, track.thread, events_.at(begin), Microseconds{end - begin},
        arguments);
  }

  void step(run::StepRow row) {
    const run::StepInfo& info = run_.steps[row.row()];
    const bool knows_memory = info.peak_allocated > 0 || info.peak_reserved > 0;
    slice(tracks_.step(row), "step", fmt::format("step {} ({})", info.number, run::name(info.kind)),
          info.begin, info.end,
          knows_memory ? fmt::format(R"("peak_requested":{},"peak_allocated":{},"peak_active":{},)"
                                     R"("peak_reserved":{})",
                                     info.peak_requested, info.peak_allocated, info.peak_active,
                                     info.peak_reserved)
                       : std::string());
    if (const auto& host = tracks_.host_times(row))
      slice(tracks_.host_step(row), "user_annotation", fmt::format("ProfilerStep#{}", info.number),
            host->begin, host->end, "");
  }

  static std::string_view launch_name(std::string_view category) {
    return category == "gpu_memcpy"   ? "cudaMemcpyAsync"
           : category == "gpu_memset" ? "cudaMemsetAsync"
                                      : "cudaLaunchKernel";
  }

  static bool is_driver(std::string_view name) {  // "cuLaunchKernel"
    return name.size() > 2 && name.starts_with("cu") && name[2] >= 'A' && name[2] <= 'Z';
  }

  // A recording without device work is host-only: what it calls calls are ranges.
  std::string_view category_of(std::string_view call) const {
    if (is_driver(call)) return "cuda_driver";
    return run_.ops.size() > 0 || call.starts_with("cuda") ? "cuda_runtime" : "user_annotation";
  }

  void call(run::HostCallRow row) {
    const run::HostCallRecord& call = run_.calls[row.row()];
    set_correlation(std::uint64_t{row.row()} + 1);
    slice(tracks_.call(row), category_of(run_.text_of(call.name)), names_.text(call.name),
          call.start, call.end, text_of(arguments_));
  }

  void set_correlation(std::uint64_t number) {
    arguments_.clear();
    fmt::format_to(fmt::appender(arguments_), FMT_COMPILE(R"("External id":{},"correlation":{},)"),
                   number, number);
  }

  void op(OpRow row) {
    const run::OpRecord op = run_.ops.at(row);
    const ChromeTrack track = tracks_.op(row);
    const std::string_view category = names_.category(row);
    const bool is_predicted = run_.about.kind == run::RunKind::predicted;
    ChromeTrack host;
    if (is_predicted) {
      host = tracks_.host(class_of(row));
      set_correlation(std::uint64_t{row.row()} + 1);
      slice(host, "cuda_runtime", launch_name(category), op.issued, op.issued, text_of(arguments_));
    } else if (op.launch) {
      host = tracks_.call(op.launch);
      set_correlation(std::uint64_t{op.launch.row()} + 1);
    } else {
      arguments_.clear();
    }
    const std::optional<Ns> launched = launch_time(run_, row);
    const bool has_arrow = launched && *launched <= op.start;
    const run::Arrow launch{row, row, launched.value_or(0), op.start};
    if (has_arrow) arrow_end('s', "ac2g", "ac2g", host, launch.from_time, launch);

    add_arguments(row, op);
    slice(track, category, names_.title(row, title_), op.start, op.end, text_of(arguments_));
    if (has_arrow) arrow_end('f', "ac2g", "ac2g", track, op.start, launch);
    if (op.transfer > op.start)
      slice(track, "wait", "wait for other ranks", op.start, op.transfer, "");
  }

  void add_arguments(OpRow row, const run::OpRecord& op) {
    const auto out = fmt::appender(arguments_);
    fmt::format_to(out,
                   FMT_COMPILE(R"("device":{},"stream":{},"key":{},"role":"{}","reason":"{}")"),
                   tracks_.device(op.stream), tracks_.stream_number(op.stream),
                   json_quote(op_key(run_, row)), foregather::name(op.role), run::name(op.reason));
    if (op.bound_by)
      fmt::format_to(out, FMT_COMPILE(R"(,"bound_by":{})"), json_quote(op_key(run_, op.bound_by)));
    fmt::format_to(out, FMT_COMPILE(R"(,"bytes":{})"), op.bytes);
    if (op.flops != 0) fmt::format_to(out, FMT_COMPILE(R"(,"flops":{})"), op.flops);
    if (run_.about.kind == run::RunKind::predicted)
      fmt::format_to(out, FMT_COMPILE(R"(,"source":"{}")"), names_.text(op.source));
    if (op.communicator) add_collective(row, op);
  }

  void add_collective(OpRow row, const run::OpRecord& op) {
    const auto out = fmt::appender(arguments_);
    const auto said = std::lower_bound(
        run_.collectives.begin(), run_.collectives.end(), row,
        [](const run::CollectiveRecord& record, OpRow other) { return record.op < other; });
    if (said != run_.collectives.end() && said->op == row) {
      fmt::format_to(out,
                     FMT_COMPILE(R"(,"Collective name":"{}","Process Group Name":"{}",)"
                                 R"("Process Group Ranks":"{}","Group size":{},"dtype":"{}",)"
                                 R"("In msg nelems":{},"Out msg nelems":{})"),
                     names_.text(said->name), names_.text(said->group), names_.text(said->ranks),
                     said->group_size, names_.text(said->dtype), said->in_elements,
                     said->out_elements);
      if (said->sequence) fmt::format_to(out, FMT_COMPILE(R"(,"Seq":{})"), *said->sequence);
      return;
    }
    if (run_.about.kind == run::RunKind::measured) return;  // it said nothing
    const run::CommunicatorInfo& communicator = run_.communicators[op.communicator.row()];
    fmt::format_to(
        out,
        FMT_COMPILE(R"(,"Collective name":"{}","Process Group Name":"{}","Group size":{},"Seq":{},)"
                    R"("wire_bytes":{})"),
        foregather::name(op.kind), names_.text(communicator.name), communicator.ranks, op.sequence,
        op.wire_bytes);
  }

  void arrow(const run::Arrow& arrow, std::string_view category, std::string_view name) {
    arrow_end('s', category, name, tracks_.op(arrow.from), arrow.from_time, arrow);
    arrow_end('f', category, name, tracks_.op(arrow.to), arrow.to_time, arrow);
  }

  // An op has at most one arrow of a category that leads to it.
  void arrow_end(char phase, std::string_view category, std::string_view name, ChromeTrack track,
                 Ns time, const run::Arrow& arrow) {
    events_.event(
        FMT_COMPILE(R"("ph":"{}","id":{},"cat":"{}","name":"{}","pid":{},"tid":{},"ts":{}{})"),
        phase, part_.first_arrow + arrow.to.row() + 1, category, name, track.process, track.thread,
        events_.at(time), phase == 'f' ? R"(,"bp":"e")" : "");
  }

  void out_of_memory(const run::FailureRecord& failure) {
    const ChromeTrack track = tracks_.first(run_.steps[failure.step.row()].rank_class);
    events_.event(
        FMT_COMPILE(R"("ph":"i","s":"p","pid":{},"tid":{},"name":"out of memory: {}","ts":{},)"
                    R"("args":{{"requested":{}}})"),
        track.process, track.thread, names_.text(failure.name), events_.at(failure.time),
        failure.bytes);
  }

  static std::string_view text_of(const fmt::memory_buffer& buffer) {
    return {buffer.data(), buffer.size()};
  }

  run::RunView run_;
  const ChromeNames& names_;
  const ChromeTracks& tracks_;
  const ChromePart& part_;
  ChromeEvents events_;
  fmt::memory_buffer arguments_;
  std::string title_;
};

}  // namespace

ChromeTrace::ChromeTrace(run::RunView run) : run_(run), names_(run), tracks_(run) {
  for (const run::HostCallRecord& call : run.calls) shift_ = std::max(shift_, -call.start);
}

Status ChromeTrace::write(const ChromePart& part, const TextSink& sink) const {
  return PartWriter(run_, names_, tracks_, part, shift_, sink).write();
}

}  // namespace foregather::traces
