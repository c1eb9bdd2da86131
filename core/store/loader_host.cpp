#include "core/store/loader.h"

namespace foregather::store {

using namespace foregather::run;

Status Loader::threads() {
  return each_row("thread", "id, rank_class, process, name",
                  [&](RowReader& row, std::size_t number) {
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
                  [&](RowReader& row, std::size_t number) {
                    row.id(number);
                    HostCallRecord call;
                    call.thread = row.row<ThreadRow>(run_.threads.size());
                    call.name = string(row);
                    call.start = row.integer();
                    call.end = row.integer();
                    run_.calls.push_back(call);
                  });
}

Status Loader::launches() {
  return each_row(
      "launch", "op, call",
      [&](RowReader& row, std::size_t) {
        const auto op = row.row<OpRow>(run_.ops.size());
        const auto call = row.row<HostCallRow>(run_.calls.size());
        if (row.ok()) run_.ops.launch[op.row()] = call;
      },
      "op");
}

Status Loader::waits() {
  return each_row("stream_wait", "id, stream, call, recorded, awaited",
                  [&](RowReader& row, std::size_t number) {
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
      [&](RowReader& row, std::size_t) {
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

}  // namespace foregather::store
