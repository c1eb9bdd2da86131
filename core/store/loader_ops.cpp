#include <algorithm>
#include <atomic>
#include <filesystem>
#include <new>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "core/base/interrupt.h"
#include "core/store/loader.h"

namespace foregather::store {

using namespace foregather::run;

namespace {

// The last one first: SQLite finds the places of all columns before it on the way, all at once.
constexpr auto kOpColumns =
    "flops, id, step, stream, micro_batch, scope, phase, kind, ordinal, role, unit, communicator, "
    "sequence, issued_ns, start_ns, transfer_ns, end_ns, alone_ns, reason, bound_by, "
    "bound_by_previous_step, source, bytes, wire_bytes";

// Fewer are read faster than another connection is opened.
constexpr std::size_t kOpsOfThread = 250'000;
// A row has two dozen columns of a byte or more: a database that promises more rows is damaged.
constexpr std::uintmax_t kLeastRow = 20;

// Every parts-th column: the kernel takes its time for the first touch of so much memory.
void resize_columns(OpColumns& ops, std::size_t rows, std::size_t part, std::size_t parts) {
  std::size_t at = 0;
  const auto each = [&](auto&... column) {
    ((at++ % parts == part ? column.resize(rows) : void()), ...);
  };
  each(ops.issued, ops.start, ops.transfer, ops.end, ops.alone, ops.bytes, ops.wire_bytes,
       ops.flops, ops.step, ops.stream, ops.ordinal, ops.scope, ops.unit, ops.communicator,
       ops.sequence, ops.launch, ops.bound_by, ops.source, ops.micro_batch, ops.kind, ops.role,
       ops.phase, ops.reason, ops.bound_by_previous_step);
}

// Calls work(part) for each part, on a thread each. The status of the first part that failed.
template <class Work>
Status on_threads(std::size_t parts, const std::string& path, const Work& work) {
  std::vector<Status> done(parts);
  {
    std::vector<std::jthread> threads;
    for (std::size_t part = 0; part < parts; ++part) {
      const auto guarded = [&, part] {
        try {
          done[part] = work(part);
        } catch (const std::bad_alloc&) {
          done[part] = fail_work(path, "cannot be read: out of memory");
        }
      };
      try {
        threads.emplace_back(guarded);
      } catch (const std::system_error&) {  // no more threads
        guarded();
      }
    }
  }
  const auto failed =
      std::find_if(done.begin(), done.end(), [](const Status& part) { return !part; });
  return failed == done.end() ? Status{} : *failed;
}

void put(OpColumns& ops, std::size_t i, const OpRecord& op) {
  ops.step[i] = op.step;
  ops.stream[i] = op.stream;
  ops.micro_batch[i] = op.micro_batch;
  ops.ordinal[i] = op.ordinal;
  ops.kind[i] = op.kind;
  ops.role[i] = op.role;
  ops.phase[i] = op.phase;
  ops.reason[i] = op.reason;
  ops.scope[i] = op.scope;
  ops.unit[i] = op.unit;
  ops.communicator[i] = op.communicator;
  ops.sequence[i] = op.sequence;
  ops.issued[i] = op.issued;
  ops.start[i] = op.start;
  ops.transfer[i] = op.transfer;
  ops.end[i] = op.end;
  ops.alone[i] = op.alone;
  ops.bound_by[i] = op.bound_by;
  ops.bound_by_previous_step[i] = op.bound_by_previous_step ? 1 : 0;
  ops.source[i] = op.source;
  ops.bytes[i] = op.bytes;
  ops.wire_bytes[i] = op.wire_bytes;
  ops.flops[i] = op.flops;
}

}  // namespace

OpRecord Loader::op(CellReader& row, std::size_t number) {
  OpRecord op;
  op.flops = row.integer();
  row.id(number);
  op.step = row.row<StepRow>(run_.steps.size());
  op.stream = row.row<StreamRow>(run_.streams.size());
  op.micro_batch = row.number<std::uint16_t>();
  op.scope = string(row);
  op.phase = row.choice(Phase::other);
  op.kind = row.choice(kLastOpKind);
  op.ordinal = row.number<std::uint32_t>();
  op.role = row.choice(Role::other);
  op.unit = string(row);
  op.communicator = row.maybe_row<CommunicatorRow>(run_.communicators.size());
  op.sequence = row.number<std::uint32_t>();
  op.issued = row.time();
  op.start = row.time();
  op.transfer = row.time();
  op.end = row.time_from(op.start);
  op.alone = row.time();
  op.reason = row.choice(BoundReason::dependency);
  op.bound_by = row.maybe_row<OpRow>(kMostRows);
  op.bound_by_previous_step = row.flag();
  op.source = string(row);
  op.bytes = row.integer();
  op.wire_bytes = row.integer();
  return op;
}

Status Loader::ops() {
  const auto last = database_.integer(
      fmt::format("SELECT coalesce(max(id), -1) FROM op WHERE run = {}", id_).c_str());
  if (!last) return tl::unexpected(last.error());
  std::error_code failed;
  const std::uintmax_t bytes = std::filesystem::file_size(database_.path(), failed);
  const auto count = static_cast<std::uintmax_t>(std::max<std::int64_t>(*last, -1) + 1);
  const std::size_t threads =
      std::min<std::size_t>(std::max(1U, std::thread::hardware_concurrency()),
                            static_cast<std::size_t>(count / kOpsOfThread));
  const bool is_sane = !failed && count <= bytes / kLeastRow;
  const Status read = threads > 1 && is_sane
                          ? ops_in_parallel(static_cast<std::size_t>(count), threads)
                          : ops_in_order();
  if (!read) return read;
  for (std::size_t i = 1; i < run_.ops.size(); ++i)
    is_disordered_ = is_disordered_ || run_.ops.step[i] < run_.ops.step[i - 1];
  return {};
}

Status Loader::ops_in_order() {
  return each_row("op", kOpColumns, [&](CellReader& row, std::size_t number) {
    const OpRecord record = op(row, number);
    if (row.ok()) run_.ops.append(record);
  });
}

// Each thread has a connection and a range of rows of its own.
Status Loader::ops_in_parallel(std::size_t count, std::size_t threads) {
  const std::string& path = database_.path();
  const std::atomic<bool>* const stop = interrupt_flag();
  const auto read = [&](std::size_t first, std::size_t end) -> Status {
    static const std::atomic<bool> never = false;
    const Interruptible scope(stop != nullptr ? *stop : never);
    auto database = Database::open(path);
    if (!database) return tl::unexpected(database.error());
    std::size_t number = first;
    bool is_sound = true;
    const Status visited = database->visit(
        kOpColumns,
        fmt::format("op WHERE run = {} AND id >= {} AND id < {} ORDER BY id", id_, first, end),
        [&](const Cells& cells) {
          CellReader row(cells);
          const OpRecord record = op(row, number);
          is_sound = row.ok() && number < end;
          if (is_sound) put(run_.ops, number++, record);
          return is_sound;
        });
    if (!visited) return visited;
    return is_sound && number == end ? Status{} : damaged("op", number);
  };
  const Status resized = on_threads(threads, path, [&](std::size_t part) -> Status {
    resize_columns(run_.ops, count, part, threads);
    return {};
  });
  if (!resized) return resized;
  return on_threads(threads, path, [&](std::size_t part) {
    return read(count * part / threads, count * (part + 1) / threads);
  });
}

}  // namespace foregather::store
