#include "gui/models/details.h"

#include <fmt/format.h>

#include "core/base/text.h"
#include "core/run/key.h"
#include "gui/models/time_axis.h"

namespace foregather::gui {
namespace {

using Rows = std::vector<Detail>;

void add_start(Ns at, Rows& rows) { rows.push_back({"start", format_position(at), at}); }

void add_bound(run::RunView run, run::OpRow op, Rows& rows) {
  const run::OpRow by = run.ops.bound_by[op.row()];
  std::string text(name(run.ops.reason[op.row()]));
  if (by) text += ": " + run::op_key(run, by);
  rows.push_back({"held back by", text});
}

void add_times(const Session& session, std::size_t side, const run::OpRecord& op, Rows& rows) {
  add_start(session.on_axis(side, op.start), rows);
  rows.push_back({"duration", format_time(op.end - op.start)});
  if (is_collective(op.kind)) {
    rows.push_back({"waits for ranks", format_time(op.transfer - op.start)});
    rows.push_back({"transfer", format_time(op.end - op.transfer)});
  }
  if (op.alone > 0) rows.push_back({"alone", format_time(op.alone)});
  if (session.knows_launches(side))
    rows.push_back({"launched", format_time(op.start - op.issued) + " before"});
}

void add_met(const Session& session, const Span& span, Rows& rows) {
  const compare::MatchedGroup* group = session.group_of(span.side, run::OpRow(span.row), span.pair);
  if (group == nullptr) return;
  if (!group->level) {
    rows.push_back({"met", "nothing on the other side"});
    return;
  }
  rows.push_back({"met", fmt::format("{} with {} ops by {}", group->first_ops, group->second_ops,
                                     name(*group->level))});
  rows.push_back({session.word(0), format_time(group->first_time)});
  rows.push_back({session.word(1), format_time(group->second_time)});
  if (const auto error = relative_error(group->first_time, group->second_time))
    rows.push_back({"error", fmt::format("{:+.1f} %", 100 * *error)});
}

}  // namespace

std::vector<std::string> short_names(const Session& session, const Span& span) {
  run::RunView run = session.run(span.side);
  if (span.kind == SpanKind::call) return {std::string(run.text_of(run.calls[span.row].name))};
  const std::string kind(name(run.ops.kind[span.row]));
  const std::string_view scope = run.text_of(run.ops.scope[span.row]);
  if (!scope.empty()) {
    const std::string_view last = scope.substr(scope.find_last_of(".:") + 1);
    return {fmt::format("{} {}", scope, kind), fmt::format("{} {}", last, kind), kind};
  }
  const std::string_view source = run.text_of(run.ops.source[span.row]);
  if (run.about.kind == run::RunKind::measured && !source.empty())
    return {std::string(source), kind};
  return {kind};
}

std::string full_name(const Session& session, const Span& span) {
  run::RunView run = session.run(span.side);
  if (span.kind == SpanKind::call) return std::string(run.text_of(run.calls[span.row].name));
  return run::op_key(run, run::OpRow(span.row));
}

std::vector<Detail> details(const Session& session, const Span& span) {
  run::RunView run = session.run(span.side);
  Rows rows{{"run", std::string(name(run.about.kind)) + ", " + run.about.name}};
  if (span.kind == SpanKind::call) {
    const TimeRange range = range_of(session, span);
    add_start(range.begin, rows);
    rows.push_back({"duration", format_time(range.length())});
    return rows;
  }
  const run::OpRecord op = run.ops.at(run::OpRow(span.row));
  rows.push_back({"stream", std::string(run.text_of(run.streams[op.stream.row()].name))});
  add_times(session, span.side, op, rows);
  add_bound(run, run::OpRow(span.row), rows);
  if (op.bytes > 0) rows.push_back({"bytes", format_bytes(op.bytes)});
  if (op.wire_bytes > 0) rows.push_back({"sent by a rank", format_bytes(op.wire_bytes)});
  if (op.flops > 0) rows.push_back({"FLOPs", format_count(op.flops)});
  if (op.source)
    rows.push_back({run.about.kind == run::RunKind::measured ? "kernel" : "source of the time",
                    std::string(run.text_of(op.source))});
  add_met(session, span, rows);
  return rows;
}

}  // namespace foregather::gui
