#include "core/ir/references.h"
#include "core/store/loader.h"

namespace foregather::store {

using namespace foregather::run;

Status Loader::threads() {
  return each_row("thread", "id, rank_class, process, name",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    ThreadInfo thread;
                    thread.rank_class = row.row<ClassRow>(run_.classes.size());
                    thread.process = string(row);
                    thread.name = string(row);
                    run_.threads.push_back(thread);
                  });
}

Status Loader::calls() {
  return each_row("call", "id, thread, name, start_ns, end_ns",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    HostCallRecord call;
                    call.thread = row.row<ThreadRow>(run_.threads.size());
                    call.name = string(row);
                    call.start = row.time();
                    call.end = row.time_from(call.start);
                    run_.calls.push_back(call);
                  });
}

Status Loader::launches() {
  return each_row(
      "launch", "op, call",
      [&](CellReader& row, std::size_t) {
        const auto op = row.row<OpRow>(run_.ops.size());
        const auto call = row.row<HostCallRow>(run_.calls.size());
        if (row.ok()) run_.ops.launch.set(op.row(), call);
      },
      "op");
}

Status Loader::waits() {
  return each_row("stream_wait", "id, stream, call, recorded, awaited",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    StreamWaitRecord wait;
                    wait.stream = row.row<StreamRow>(run_.streams.size());
                    wait.call = row.maybe_row<HostCallRow>(run_.calls.size());
                    wait.recorded = row.maybe_row<HostCallRow>(run_.calls.size());
                    wait.awaited = string(row);
                    run_.waits.push_back(wait);
                  });
}

Status Loader::collectives() {
  return each_row(
      "collective",
      "op, name, dtype, process_group, ranks, in_elements, out_elements, group_size, sequence",
      [&](CellReader& row, std::size_t) {
        CollectiveRecord collective;
        collective.op = row.row<OpRow>(run_.ops.size());
        collective.name = string(row);
        collective.dtype = string(row);
        collective.group = string(row);
        collective.ranks = string(row);
        collective.in_elements = row.integer();
        collective.out_elements = row.integer();
        collective.group_size = row.number<std::uint32_t>();
        collective.sequence = row.maybe_integer();
        run_.collectives.push_back(collective);
      },
      "op");
}

Status Loader::kernel_launches() {
  return each_row(
      "kernel_launch", "op, operator, shapes, types, arguments, is_alone, threads",
      [&](CellReader& row, std::size_t) {
        KernelLaunch launch;
        launch.op = row.row<OpRow>(run_.ops.size());
        launch.name = string(row);
        launch.shapes = string(row);
        launch.types = string(row);
        launch.values = string(row);
        launch.is_alone = row.flag();
        launch.threads = row.within(0, kMostWork);
        run_.kernel_launches.push_back(launch);
      },
      "op");
}

Status Loader::state() {
  auto query = database_.prepare("SELECT state FROM recording WHERE run = ?");
  if (!query) return tl::unexpected(query.error());
  query->start(id_);
  const auto found = query->next();
  if (!found) return tl::unexpected(found.error());
  if (*found) {
    RowReader row(*query);
    run_.about.state = row.choice(RunState::failed);
    if (!row.ok()) return damaged("recording", 0);
    is_recording_ = true;
  }
  return is_disordered_ && !is_recording_ ? damaged("op", 0) : Status{};
}

Status Loader::works() {
  return each_row("kernel_work",
                  "id, kernel, kind, dtype, kernels, flops, bytes_read, bytes_written, m, n, k, "
                  "batch",
                  [&](CellReader& row, std::size_t number) {
                    row.id(number);
                    KernelWork work;
                    work.kernel = row.row<StringId>(run_.strings.size());
                    work.cost.kind = row.choice(kLastOpKind);
                    work.cost.dtype = row.choice(DType::boolean);
                    work.cost.kernels = row.number<std::uint16_t>();
                    for (std::int64_t* const value :
                         {&work.cost.flops, &work.cost.bytes_read, &work.cost.bytes_written,
                          &work.cost.m, &work.cost.n, &work.cost.k, &work.cost.batch})
                      *value = row.within(0, kMostWork);
                    run_.works.push_back(work);
                  });
}

}  // namespace foregather::store
