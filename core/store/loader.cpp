#include "core/store/loader.h"

#include <algorithm>
#include <array>

#include "core/ir/references.h"
#include "core/run/span.h"

namespace foregather::store {

using namespace foregather::run;

Status Loader::info() {
  auto query = database_.prepare(
      "SELECT name, kind, tool, source, source_text, options, hardware, strategy, world_size, "
      "parameters, tokens_per_rank_step, model_flops_per_rank_step, capacity, outside_allocator "
      "FROM run WHERE id = ?");
  if (!query) return tl::unexpected(query.error());
  query->start(id_);
  const auto found = query->next();
  if (!found) return tl::unexpected(found.error());
  if (!*found) return damaged("run", 0);
  RowReader row(*query);
  RunInfo& about = run_.about;
  about.name = row.text();
  about.kind = row.choice(RunKind::measured);
  about.tool = row.text();
  about.source = row.text();
  about.source_text = row.text();
  about.options = row.text();
  about.hardware = row.text();
  about.strategy = row.text();
  about.world_size = row.number<std::uint32_t>();
  about.parameters = row.integer();
  about.tokens_per_rank_step = row.integer();
  about.model_flops_per_rank_step = row.integer();
  about.capacity = row.integer();
  about.outside_allocator = row.integer();
  return row.ok() ? Status{} : damaged("run", 0);
}

Status Loader::warnings() {
  const Status read = each_row("warning", "id, text", [&](CellReader& row, std::size_t number) {
    row.id(number);
    run_.about.warnings.push_back(row.text());
  });
  if (!read) return read;
  std::int64_t room = kMostEvents;  // of all together: they are added up
  return each_row("dropped", "id, reason, events", [&](CellReader& row, std::size_t number) {
    row.id(number);
    std::string reason = row.text();
    const std::int64_t events = row.within(0, room);
    room -= events;
    run_.about.dropped.emplace_back(std::move(reason), events);
  });
}

Status Loader::inputs() {
  return each_row("run_input", "id, path, digest", [&](CellReader& row, std::size_t number) {
    row.id(number);
    std::string path = row.text();
    run_.about.inputs.emplace_back(std::move(path), row.text());
  });
}

Status Loader::strings() {
  bool repeated = false;
  const Status read = each_row("string", "id, text", [&](CellReader& row, std::size_t number) {
    row.id(number);
    repeated = repeated || run_.strings.intern(row.text()) != StringId(number);
  });
  if (!read) return read;
  return repeated ? damaged("string", run_.strings.size()) : Status{};
}

Status Loader::classes() {
  const Status read = each_row("rank_class", "id, name", [&](CellReader& row, std::size_t number) {
    row.id(number);
    run_.classes.push_back({string(row), {}});
  });
  return read ? ranks() : read;
}

Status Loader::ranks() {
  std::int64_t total = 0;
  std::size_t bad = 0;
  const auto add = [&](CellReader& row, std::size_t) {
    const auto rank_class = row.row<ClassRow>(run_.classes.size());
    const auto first = row.number<std::uint32_t>();
    const auto last = row.number<std::uint32_t>();
    total += std::int64_t{last} - first + 1;
    if (!row.ok() || last < first || total > kMostRanks) return void(++bad);
    for (std::uint32_t rank = first; rank <= last; ++rank)
      run_.classes[rank_class.row()].ranks.push_back(rank);
  };
  if (const Status read =
          each_row("class_ranks", "rank_class, first, last", add, "rank_class, first");
      !read)
    return read;
  for (const ClassInfo& info : run_.classes) bad += info.ranks.empty() ? 1 : 0;
  return bad == 0 ? Status{} : damaged("class_ranks", 0);
}

Status Loader::streams() {
  return each_row("stream", "id, rank_class, name, priority",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    StreamInfo stream;
                    stream.rank_class = row.row<ClassRow>(run_.classes.size());
                    stream.name = string(row);
                    stream.priority = row.number<std::int32_t>();
                    run_.streams.push_back(stream);
                  });
}

Status Loader::communicators() {
  return each_row("communicator", "id, name, ranks, nodes",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    CommunicatorInfo communicator;
                    communicator.name = string(row);
                    communicator.ranks = row.number<std::uint32_t>();
                    communicator.nodes = row.number<std::uint32_t>();
                    run_.communicators.push_back(communicator);
                  });
}

Status Loader::steps() {
  return each_row("step",
                  "id, rank_class, kind, number, begin_ns, end_ns, host_end_ns, peak_requested, "
                  "peak_allocated, peak_active, peak_reserved, peak_at",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    StepInfo step;
                    step.rank_class = row.row<ClassRow>(run_.classes.size());
                    step.kind = row.choice(StepKind::other);
                    step.number = row.number<std::uint32_t>();
                    step.begin = row.time();
                    step.end = row.time_from(step.begin);
                    step.host_end = row.time();
                    step.peak_requested = row.integer();
                    step.peak_allocated = row.integer();
                    step.peak_active = row.integer();
                    step.peak_reserved = row.integer();
                    step.peak_at = row.maybe_row<OpRow>(kMostRows);
                    run_.steps.push_back(step);
                  });
}

// References to ops that were read before the ops' number was known.
Status Loader::check_bounds() const {
  const auto outside = [&](OpRow row) { return row && row.row() >= run_.ops.size(); };
  for (std::size_t i = 0; i < run_.steps.size(); ++i)
    if (outside(run_.steps[i].peak_at)) return damaged("step", i);
  for (std::size_t i = 0; i < run_.ops.size(); ++i)
    if (outside(run_.ops.bound_by[i])) return damaged("op", i);
  return {};
}

Status Loader::check_spans() const {
  if (run_.about.kind != RunKind::measured) return {};
  for (std::size_t i = 0; i < run_.steps.size(); ++i) {
    const OpSpan ops = ops_of(run_, StepRow(i));
    if (ops.first == ops.last) continue;
    Ns begin = run_.steps[i].begin, end = run_.steps[i].end;
    for (std::size_t op = ops.first; op < ops.last; ++op) {
      begin = std::min({begin, run_.ops.start[op], run_.ops.transfer[op]});
      end = std::max({end, run_.ops.end[op], run_.ops.transfer[op]});
    }
    if (const Status sane = check_span(database_.path(), end - begin); !sane) return sane;
  }
  return {};
}

Result<RunInfo> Loader::load_about() {
  if (const Status done = info(); !done) return tl::unexpected(done.error());
  if (version_ >= 5)
    if (const Status done = warnings(); !done) return tl::unexpected(done.error());
  if (version_ >= 8)
    if (const Status done = inputs(); !done) return tl::unexpected(done.error());
  return std::move(run_.about);
}

Result<Run> Loader::load() {
  struct Part {
    std::int64_t since;  // version
    Status (Loader::*read)();
  };
  constexpr std::array kParts{Part{1, &Loader::info},          Part{1, &Loader::strings},
                              Part{1, &Loader::classes},       Part{1, &Loader::streams},
                              Part{1, &Loader::communicators}, Part{1, &Loader::steps},
                              Part{1, &Loader::ops},           Part{1, &Loader::bindings},
                              Part{1, &Loader::segments},      Part{1, &Loader::memory},
                              Part{1, &Loader::causes},        Part{1, &Loader::failures},
                              Part{2, &Loader::threads},       Part{2, &Loader::calls},
                              Part{2, &Loader::launches},      Part{2, &Loader::waits},
                              Part{2, &Loader::collectives},   Part{2, &Loader::inferred_causes},
                              Part{4, &Loader::state},         Part{4, &Loader::works},
                              Part{5, &Loader::warnings},      Part{7, &Loader::kernel_launches},
                              Part{8, &Loader::inputs}};
  for (const Part& part : kParts)
    if (version_ >= part.since)
      if (const Status done = (this->*part.read)(); !done) return tl::unexpected(done.error());
  if (is_disordered_ && version_ < 4) return tl::unexpected(damaged("op", 0).error());
  if (const Status done = check_bounds(); !done) return tl::unexpected(done.error());
  if (is_recording_) run::sort_steps(run_);
  if (const Status done = check_spans(); !done) return tl::unexpected(done.error());
  return std::move(run_);
}

}  // namespace foregather::store
