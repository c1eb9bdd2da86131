#include "traces/chrome.h"

#include <fmt/format.h>

#include "core/base/json_writer.h"
#include "core/run/key.h"

namespace foregather::traces {
namespace {

using run::OpRecord;
using run::OpRow;

// Nanoseconds as decimal microseconds.
std::string microseconds(Ns time) {
  const char* sign = time < 0 ? "-" : "";
  const Ns size = time < 0 ? -time : time;
  return fmt::format("{}{}.{:03}", sign, size / 1000, size % 1000);
}

class Writer {
 public:
  Writer(run::RunView run, const TextSink& sink) : run_(run), sink_(sink) {}

  Status write() {
    out_ = "{\"displayTimeUnit\": \"ns\", \"otherData\": {";
    out_ += fmt::format("\"tool\": {}, \"run\": {}, \"kind\": \"{}\", \"hardware\": {}}},\n",
                        json_quote(run_.about.tool), json_quote(run_.about.name),
                        name(run_.about.kind), json_quote(run_.about.hardware));
    out_ += "\"traceEvents\": [";
    names();
    for (std::size_t row = 0; row < run_.steps.size(); ++row) step(run_.steps[row]);
    for (std::size_t row = 0; row < run_.ops.size(); ++row) {
      op(OpRow(row));
      if (Status flushed = flush(); !flushed) return flushed;
    }
    for (const run::MemoryRecord& point : run_.memory) {
      memory(point);
      if (Status flushed = flush(); !flushed) return flushed;
    }
    for (const run::FailureRecord& failure : run_.failures) out_of_memory(failure);
    out_ += "\n]}\n";
    return sink_(out_);
  }

 private:
  static constexpr std::uint32_t kStepTrack = 0;  // streams follow

  void event(std::string text) {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    out_ += text;
  }

  Status flush() {
    constexpr std::size_t kChunk = 1 << 16;
    if (out_.size() < kChunk) return {};
    Status written = sink_(out_);
    out_.clear();
    return written;
  }

  void metadata(std::uint32_t process, std::uint32_t track, std::string_view what,
                std::string_view text) {
    event(
        fmt::format("{{\"ph\": \"M\", \"pid\": {}, \"tid\": {}, \"name\": \"{}\", \"args\": "
                    "{{\"name\": {}}}}}",
                    process, track, what, json_quote(text)));
  }

  void names() {
    for (std::size_t row = 0; row < run_.classes.size(); ++row) {
      const auto& info = run_.classes[row];
      const auto process = static_cast<std::uint32_t>(row);
      const std::string ranks =
          info.ranks.size() == 1
              ? fmt::format("rank {}", info.ranks.front())
              : fmt::format("{} ranks from {}", info.ranks.size(), info.ranks.front());
      metadata(process, 0, "process_name", fmt::format("{} ({})", run_.text_of(info.name), ranks));
      metadata(process, kStepTrack, "thread_name", "steps");
    }
    for (std::size_t row = 0; row < run_.streams.size(); ++row)
      metadata(run_.streams[row].rank_class.row(), track(run::StreamRow(row)), "thread_name",
               run_.text_of(run_.streams[row].name));
  }

  static std::uint32_t track(run::StreamRow stream) { return stream.row() + 1; }

  void complete(std::uint32_t process, std::uint32_t track, std::string_view name, Ns begin, Ns end,
                std::string_view arguments) {
    event(
        fmt::format("{{\"ph\": \"X\", \"pid\": {}, \"tid\": {}, \"name\": {}, \"ts\": {}, "
                    "\"dur\": {}, \"args\": {{{}}}}}",
                    process, track, json_quote(name), microseconds(begin),
                    microseconds(end - begin), arguments));
  }

  void step(const run::StepInfo& info) {
    complete(info.rank_class.row(), kStepTrack,
             fmt::format("step {} ({})", info.number, name(info.kind)), info.begin, info.end, "");
  }

  std::string title(const OpRecord& op) const {
    const std::string_view scope = run_.text_of(op.scope);
    return scope.empty() ? std::string(foregather::name(op.kind))
                         : fmt::format("{} {}", scope, foregather::name(op.kind));
  }

  void op(OpRow row) {
    const OpRecord op = run_.ops.at(row);
    const std::uint32_t process = run_.steps[op.step.row()].rank_class.row();
    std::string arguments = fmt::format(
        "\"key\": {}, \"phase\": \"{}\", \"role\": \"{}\", \"issued_us\": {}, \"reason\": \"{}\"",
        json_quote(op_key(run_, row)), foregather::name(op.phase), foregather::name(op.role),
        microseconds(op.issued), name(op.reason));
    if (op.bound_by)
      arguments += fmt::format(", \"bound_by\": {}", json_quote(op_key(run_, op.bound_by)));
    arguments += fmt::format(", \"bytes\": {}, \"flops\": {}, \"source\": {}", op.bytes, op.flops,
                             json_quote(run_.text_of(op.source)));
    if (op.transfer > op.start)
      complete(process, track(op.stream), title(op) + " wait", op.start, op.transfer, arguments);
    complete(process, track(op.stream), title(op), op.transfer, op.end, arguments);
  }

  void memory(const run::MemoryRecord& point) {
    event(
        fmt::format("{{\"ph\": \"C\", \"pid\": {}, \"name\": \"memory\", \"ts\": {}, \"args\": "
                    "{{\"requested\": {}, \"allocated\": {}, \"active\": {}, \"reserved\": {}}}}}",
                    run_.steps[point.step.row()].rank_class.row(), microseconds(point.time),
                    point.requested, point.allocated, point.active, point.reserved));
  }

  void out_of_memory(const run::FailureRecord& failure) {
    event(
        fmt::format("{{\"ph\": \"i\", \"s\": \"p\", \"pid\": {}, \"tid\": {}, \"name\": {}, "
                    "\"ts\": {}, \"args\": {{\"requested\": {}}}}}",
                    run_.steps[failure.step.row()].rank_class.row(), kStepTrack,
                    json_quote(fmt::format("out of memory: {}", run_.text_of(failure.name))),
                    microseconds(failure.time), failure.bytes));
  }

  run::RunView run_;
  const TextSink& sink_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

Status write_chrome(run::RunView run, const TextSink& sink) { return Writer(run, sink).write(); }

}  // namespace foregather::traces
