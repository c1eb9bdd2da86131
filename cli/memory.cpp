#include "tasks/memory.h"

#include <fmt/format.h>

#include <memory>

#include "cli/command.h"
#include "cli/memory_text.h"
#include "cli/terminal.h"
#include "core/base/printable.h"
#include "tasks/memory_json.h"
#include "tasks/outputs.h"

namespace foregather::cli {
namespace {

struct MemoryArguments {
  std::string snapshot, start, capacity, database;
  std::vector<std::string> alloc_confs;
  bool json = false;
};

Result<tasks::MemoryRequest> request_of(const MemoryArguments& arguments) {
  tasks::MemoryRequest request;
  request.snapshot = arguments.snapshot;
  request.alloc_confs = arguments.alloc_confs;
  request.record_runs = !arguments.database.empty();
  if (arguments.start == "cold")
    request.start = alloc::WhatIfStart::cold;
  else if (!arguments.start.empty() && arguments.start != "recorded")
    return fail_at("--what-if-start", "unknown start '{}', expected recorded or cold",
                   arguments.start);
  if (arguments.capacity.empty()) return request;
  const auto capacity = tasks::parse_capacity(arguments.capacity);
  if (!capacity) return fail_at("--capacity", "{}", capacity.error().message);
  request.capacity = *capacity;
  return request;
}

int run_memory(const MemoryArguments& arguments) {
  const auto request = request_of(arguments);
  if (!request) return give_up(request.error());
  auto outputs = tasks::Outputs::open(arguments.database, "", "");
  if (!outputs) return give_up(outputs.error());
  const auto report = tasks::examine_snapshot(*request);
  if (!report) return give_up(report.error());
  if (const Status written = outputs->write(report->runs, "", {arguments.snapshot}); !written)
    return give_up(written.error());
  for (const std::string& warning : report->warnings) complain("warning: " + warning);
  if (arguments.json) return print_json(tasks::to_json(*report));
  std::string text = memory_text(*report);
  if (!arguments.database.empty())
    text += fmt::format("\nwrote {}\n", printable(arguments.database));
  return print(text);
}

}  // namespace

Command memory_command() {
  const auto arguments = std::make_shared<MemoryArguments>();
  Command command;
  command.name = "memory";
  command.summary = "replays a PyTorch memory snapshot through the allocator";
  command.description =
      "Reads what torch.cuda.memory._dump_snapshot wrote, works out the state at the start of the "
      "recorded window, and replays every allocation and free of every device: each address, each "
      "segment event and the reserved curve are compared with what was recorded. The first "
      "difference is reported with its reason.\n\nWith --alloc-conf the same program is replayed "
      "under other configurations: what would they have reserved, and would memory have run out?";
  command.options = {
      {"SNAPSHOT", "",
       "a memory snapshot: a pickle of protocol 2 to 5, packed by gzip or zstd or not, or "
       "FILE!MEMBER of a tar archive. Nothing in it is executed",
       nullptr, &arguments->snapshot, nullptr, true},
      {"--alloc-conf", "CONF",
       "also replays under this configuration, written as in PYTORCH_CUDA_ALLOC_CONF; 'default' "
       "is PyTorch's. May be repeated",
       nullptr, nullptr, &arguments->alloc_confs},
      {"--what-if-start", "recorded|cold",
       "where those replays begin. recorded (default): in the state at the start of the window, "
       "its cached segments included; cold: with an empty allocator that is given the live blocks "
       "first, and no limit of memory unless --capacity sets one",
       nullptr, &arguments->start, nullptr},
      {"--capacity", "BYTES",
       "device memory for the allocator in those replays, as 80GiB or in bytes. Default: what it "
       "had when memory ran out in the recording, else no limit",
       nullptr, &arguments->capacity, nullptr},
      {"-o,--output", "RUN.db", "writes the recording as a run: every block and the memory curve",
       nullptr, &arguments->database, nullptr},
      {"--json", "", "prints one JSON object, sizes in bytes, and nothing else", &arguments->json,
       nullptr, nullptr},
  };
  command.examples = {
      "foregather memory snapshot.pickle\tis the recording explained, and who holds its peak?",
      "foregather memory snapshot.pickle --alloc-conf expandable_segments:True --alloc-conf "
      "max_split_size_mb:128\twould another configuration have reserved less?",
      "foregather memory snapshot.pickle --capacity 40GiB\twould it have fitted into 40 GiB?",
  };
  command.run = [arguments] { return run_memory(*arguments); };
  return command;
}

}  // namespace foregather::cli
