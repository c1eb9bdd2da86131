#include "core/store/row_inserts.h"

#include <optional>

namespace foregather::store {
namespace {

using run::RunView;

template <class Row>
std::optional<std::int64_t> row_or_null(Row row) {
  if (!row) return std::nullopt;
  return std::int64_t{row.row()};
}

template <class Enum>
std::int64_t number(Enum value) {
  return static_cast<std::int64_t>(value);
}

// Prepares `sql` and runs it for rows 0 … count-1; `insert(statement, row)` runs it once.
template <class Insert>
Status insert_rows(Database& database, const char* sql, std::size_t count, Insert&& insert) {
  auto statement = database.prepare(sql);
  if (!statement) return tl::unexpected(statement.error());
  for (std::size_t row = 0; row < count; ++row)
    if (Status inserted = insert(*statement, row); !inserted) return inserted;
  return {};
}

std::int64_t row_id(std::size_t before, std::size_t row) {
  return static_cast<std::int64_t>(before + row);
}

Status insert_strings(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO string VALUES (?,?,?)",
                     run.strings.size() - before.strings,
                     [&](Statement& statement, std::size_t row) {
                       return statement.run(id, row_id(before.strings, row),
                                            run.strings.text(StringId(before.strings + row)));
                     });
}

Status insert_class_ranks(Database& database, std::int64_t id, RunView run,
                          const RowCounts& before) {
  const auto insert = [&](Statement& statement, std::size_t row) -> Status {
    const auto& ranks = run.classes[row].ranks;
    for (std::size_t first = 0; first < ranks.size();) {
      std::size_t last = first;
      while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
      const Status inserted = statement.run(id, row_id(before.classes, row),
                                            std::int64_t{ranks[first]}, std::int64_t{ranks[last]});
      if (!inserted) return inserted;
      first = last + 1;
    }
    return {};
  };
  return insert_rows(database, "INSERT INTO class_ranks VALUES (?,?,?,?)", run.classes.size(),
                     insert);
}

Status insert_classes(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO rank_class VALUES (?,?,?)", run.classes.size(),
                     [&](Statement& statement, std::size_t row) {
                       return statement.run(id, row_id(before.classes, row),
                                            row_or_null(run.classes[row].name));
                     });
}

Status insert_streams(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO stream VALUES (?,?,?,?,?)", run.streams.size(),
                     [&](Statement& statement, std::size_t row) {
                       const auto& stream = run.streams[row];
                       return statement.run(
                           id, row_id(before.streams, row), row_or_null(stream.rank_class),
                           row_or_null(stream.name), std::int64_t{stream.priority});
                     });
}

Status insert_communicators(Database& database, std::int64_t id, RunView run,
                            const RowCounts& before) {
  return insert_rows(database, "INSERT INTO communicator VALUES (?,?,?,?,?)",
                     run.communicators.size(), [&](Statement& statement, std::size_t row) {
                       const auto& communicator = run.communicators[row];
                       return statement.run(
                           id, row_id(before.communicators, row), row_or_null(communicator.name),
                           std::int64_t{communicator.ranks}, std::int64_t{communicator.nodes});
                     });
}

Status insert_steps(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO step VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
                     run.steps.size(), [&](Statement& statement, std::size_t row) {
                       const run::StepInfo& step = run.steps[row];
                       return statement.run(
                           id, row_id(before.steps, row), row_or_null(step.rank_class),
                           number(step.kind), std::int64_t{step.number}, step.begin, step.end,
                           step.host_end, step.peak_requested, step.peak_allocated,
                           step.peak_active, step.peak_reserved, row_or_null(step.peak_at));
                     });
}

Status insert_ops(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(
      database, "INSERT INTO op VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
      run.ops.size(), [&](Statement& statement, std::size_t row) {
        const run::OpRecord op = run.ops.at(run::OpRow(row));
        return statement.run(id, row_id(before.ops, row), row_or_null(op.step),
                             row_or_null(op.stream), std::int64_t{op.micro_batch},
                             row_or_null(op.scope), number(op.phase), number(op.kind),
                             std::int64_t{op.ordinal}, number(op.role), row_or_null(op.unit),
                             row_or_null(op.communicator), std::int64_t{op.sequence}, op.issued,
                             op.start, op.transfer, op.end, op.alone, number(op.reason),
                             row_or_null(op.bound_by), std::int64_t{op.bound_by_previous_step},
                             row_or_null(op.source), op.bytes, op.wire_bytes, op.flops);
      });
}

Status insert_bindings(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO binding VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                     run.bindings.size(), [&](Statement& statement, std::size_t row) {
                       const run::BindingRecord& binding = run.bindings[row];
                       return statement.run(
                           id, row_id(before.bindings, row), row_or_null(binding.step),
                           row_or_null(binding.name), row_or_null(binding.scope),
                           number(binding.cause), binding.bytes, binding.block_bytes,
                           static_cast<std::int64_t>(binding.address), binding.allocated,
                           binding.freed, row_or_null(binding.before_op),
                           std::int64_t{binding.from_before}, std::int64_t{binding.still_bound});
                     });
}

Status insert_segments(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO segment VALUES (?,?,?,?,?,?,?,?,?,?)",
                     run.segments.size(), [&](Statement& statement, std::size_t row) {
                       const run::SegmentRecord& segment = run.segments[row];
                       return statement.run(
                           id, row_id(before.segments, row), row_or_null(segment.step),
                           row_or_null(segment.stream), number(segment.change),
                           std::int64_t{segment.large}, std::int64_t{segment.expandable},
                           segment.time, static_cast<std::int64_t>(segment.address), segment.bytes);
                     });
}

Status insert_memory(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO memory VALUES (?,?,?,?,?,?,?,?)", run.memory.size(),
                     [&](Statement& statement, std::size_t row) {
                       const run::MemoryRecord& point = run.memory[row];
                       return statement.run(id, row_id(before.memory, row), row_or_null(point.step),
                                            point.time, point.requested, point.allocated,
                                            point.active, point.reserved);
                     });
}

Status insert_causes(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO peak_cause VALUES (?,?,?,?,?)", run.causes.size(),
                     [&](Statement& statement, std::size_t row) {
                       const run::CauseRecord& cause = run.causes[row];
                       return statement.run(id, row_id(before.causes, row), row_or_null(cause.step),
                                            number(cause.cause), cause.bytes);
                     });
}

Status insert_failures(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO out_of_memory VALUES (?,?,?,?,?,?,?,?,?,?,?)",
                     run.failures.size(), [&](Statement& statement, std::size_t row) {
                       const run::FailureRecord& failure = run.failures[row];
                       return statement.run(id, row_id(before.failures, row),
                                            row_or_null(failure.step), row_or_null(failure.name),
                                            failure.bytes, failure.time,
                                            std::int64_t{failure.micro_batch},
                                            row_or_null(failure.scope), number(failure.phase),
                                            number(failure.kind), std::int64_t{failure.ordinal});
                     });
}

Status insert_threads(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO thread VALUES (?,?,?,?,?)", run.threads.size(),
                     [&](Statement& statement, std::size_t row) {
                       const run::ThreadInfo& thread = run.threads[row];
                       return statement.run(id, row_id(before.threads, row),
                                            row_or_null(thread.rank_class),
                                            row_or_null(thread.process), row_or_null(thread.name));
                     });
}

Status insert_calls(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO call VALUES (?,?,?,?,?,?)", run.calls.size(),
                     [&](Statement& statement, std::size_t row) {
                       const run::HostCallRecord& call = run.calls[row];
                       return statement.run(id, row_id(before.calls, row), row_or_null(call.thread),
                                            row_or_null(call.name), call.start, call.end);
                     });
}

Status insert_launches(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO launch VALUES (?,?,?)", run.ops.size(),
                     [&](Statement& statement, std::size_t row) -> Status {
                       if (!run.ops.launch[row]) return {};
                       return statement.run(id, row_id(before.ops, row),
                                            row_or_null(run.ops.launch[row]));
                     });
}

Status insert_waits(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO stream_wait VALUES (?,?,?,?,?,?)", run.waits.size(),
                     [&](Statement& statement, std::size_t row) {
                       const run::StreamWaitRecord& wait = run.waits[row];
                       return statement.run(id, row_id(before.waits, row), row_or_null(wait.stream),
                                            row_or_null(wait.call), row_or_null(wait.recorded),
                                            row_or_null(wait.awaited));
                     });
}

Status insert_collectives(Database& database, std::int64_t id, RunView run, const RowCounts&) {
  return insert_rows(database, "INSERT INTO collective VALUES (?,?,?,?,?,?,?,?,?,?)",
                     run.collectives.size(), [&](Statement& statement, std::size_t row) {
                       const run::CollectiveRecord& collective = run.collectives[row];
                       return statement.run(
                           id, row_or_null(collective.op), row_or_null(collective.name),
                           row_or_null(collective.dtype), row_or_null(collective.group),
                           row_or_null(collective.ranks), collective.in_elements,
                           collective.out_elements, std::int64_t{collective.group_size},
                           collective.sequence);
                     });
}

Status insert_kernel_launches(Database& database, std::int64_t id, RunView run, const RowCounts&) {
  return insert_rows(database, "INSERT INTO kernel_launch VALUES (?,?,?,?,?,?,?,?)",
                     run.kernel_launches.size(), [&](Statement& statement, std::size_t row) {
                       const run::KernelLaunch& launch = run.kernel_launches[row];
                       return statement.run(id, row_or_null(launch.op), row_or_null(launch.name),
                                            row_or_null(launch.shapes), row_or_null(launch.types),
                                            row_or_null(launch.values),
                                            std::int64_t{launch.is_alone}, launch.threads);
                     });
}

Status insert_inferred_causes(Database& database, std::int64_t id, RunView run,
                              const RowCounts& before) {
  return insert_rows(database, "INSERT INTO inferred_causes VALUES (?,?)", run.steps.size(),
                     [&](Statement& statement, std::size_t row) -> Status {
                       if (!run.steps[row].causes_inferred) return {};
                       return statement.run(id, row_id(before.steps, row));
                     });
}

Status insert_works(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  return insert_rows(database, "INSERT INTO kernel_work VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?)",
                     run.works.size(), [&](Statement& statement, std::size_t row) {
                       const run::KernelWork& work = run.works[row];
                       const Cost& cost = work.cost;
                       return statement.run(id, row_id(before.works, row), row_or_null(work.kernel),
                                            number(cost.kind), number(cost.dtype),
                                            std::int64_t{cost.kernels}, cost.flops, cost.bytes_read,
                                            cost.bytes_written, cost.m, cost.n, cost.k, cost.batch);
                     });
}

Status insert_dropped(Database& database, std::int64_t id, const run::EventCounts& dropped) {
  return insert_rows(database, "INSERT INTO dropped VALUES (?,?,?,?)", dropped.size(),
                     [&](Statement& statement, std::size_t row) {
                       const auto& [reason, events] = dropped[row];
                       return statement.run(id, row_id(0, row), std::string_view(reason), events);
                     });
}

Status insert_inputs(Database& database, std::int64_t id,
                     const std::vector<std::pair<std::string, std::string>>& inputs) {
  return insert_rows(database, "INSERT INTO run_input VALUES (?,?,?,?)", inputs.size(),
                     [&](Statement& statement, std::size_t row) {
                       const auto& [path, digest] = inputs[row];
                       return statement.run(id, row_id(0, row), std::string_view(path),
                                            std::string_view(digest));
                     });
}

}  // namespace

void RowCounts::count(RunView run) {
  strings = run.strings.size();
  classes += run.classes.size();
  streams += run.streams.size();
  communicators += run.communicators.size();
  steps += run.steps.size();
  ops += run.ops.size();
  bindings += run.bindings.size();
  segments += run.segments.size();
  memory += run.memory.size();
  causes += run.causes.size();
  failures += run.failures.size();
  threads += run.threads.size();
  calls += run.calls.size();
  waits += run.waits.size();
  works += run.works.size();
  warnings += run.about.warnings.size();
}

Status insert_info(Database& database, std::int64_t id, const run::RunInfo& info) {
  const Status inserted =
      insert_rows(database, "INSERT INTO run VALUES (?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)", 1,
                  [&](Statement& statement, std::size_t) {
                    return statement.run(
                        id, std::string_view(info.name), number(info.kind),
                        std::string_view(info.tool), std::string_view(info.source),
                        std::string_view(info.source_text), std::string_view(info.options),
                        std::string_view(info.hardware), std::string_view(info.strategy),
                        std::int64_t{info.world_size}, info.parameters, info.tokens_per_rank_step,
                        info.model_flops_per_rank_step, info.capacity, info.outside_allocator);
                  });
  if (!inserted) return inserted;
  if (Status done = insert_warnings(database, id, 0, info.warnings); !done) return done;
  if (Status done = insert_dropped(database, id, info.dropped); !done) return done;
  if (Status done = insert_inputs(database, id, info.inputs); !done) return done;
  if (info.state == run::RunState::complete) return {};
  return insert_rows(
      database, "INSERT INTO recording VALUES (?,?)", 1,
      [&](Statement& statement, std::size_t) { return statement.run(id, number(info.state)); });
}

Status insert_warnings(Database& database, std::int64_t id, std::size_t before,
                       std::span<const std::string> warnings) {
  return insert_rows(database, "INSERT INTO warning VALUES (?,?,?)", warnings.size(),
                     [&](Statement& statement, std::size_t row) {
                       return statement.run(id, row_id(before, row),
                                            std::string_view(warnings[row]));
                     });
}

Status insert_tables(Database& database, std::int64_t id, RunView run, const RowCounts& before) {
  constexpr Status (*kInserts[])(Database&, std::int64_t, RunView, const RowCounts&) = {
      insert_strings,       insert_classes,         insert_class_ranks, insert_streams,
      insert_communicators, insert_steps,           insert_ops,         insert_bindings,
      insert_segments,      insert_memory,          insert_causes,      insert_failures,
      insert_threads,       insert_calls,           insert_launches,    insert_waits,
      insert_collectives,   insert_inferred_causes, insert_works,       insert_kernel_launches};
  for (const auto insert : kInserts)
    if (Status done = insert(database, id, run, before); !done) return done;
  return {};
}

}  // namespace foregather::store
