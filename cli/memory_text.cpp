#include "cli/memory_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "core/base/printable.h"
#include "core/base/text.h"

namespace foregather::cli {
namespace {

using tasks::MemoryTrace;

constexpr std::size_t kMostFrames = 10;
constexpr std::size_t kMostSizes = 6;
constexpr std::size_t kMostStack = 8;
constexpr std::size_t kLongestFrame = 160;

std::string frame_text(std::string_view frame) {
  return printable(shortened(frame, kLongestFrame));
}

std::string count(std::size_t number) { return format_count(static_cast<std::int64_t>(number)); }

std::string verdict(const MemoryTrace& trace) {
  const alloc::Replay& replay = trace.replay;
  if (trace.events == 0)
    return "  no history was recorded, so nothing is replayed: expected a snapshot behind\n"
           "  torch.cuda.memory._record_memory_history()\n";
  std::string text = fmt::format(
      "  replay: {} of {} addresses, {} of {} segment events, peak reserved off by {} B\n",
      count(replay.exact_addresses), count(replay.allocs), count(replay.segments_exact),
      count(replay.segments_recorded),
      format_count(replay.peak.reserved - replay.peak_reserved_recorded));
  if (replay.exact())
    return text + "  exact: every address, every segment event, every block at the end\n";
  text += fmt::format("  differs first at event {} ({}): {}\n", replay.first_divergence->event,
                      trace.diverging_action, replay.first_divergence->reason);
  const std::span<const std::string> stack(trace.diverging_stack);
  for (const std::string& frame : stack.first(std::min(stack.size(), kMostStack)))
    text += fmt::format("      {}\n", frame_text(frame));
  return text;
}

std::string usage(const alloc::Replay& replay) {
  TextTable table;
  table.row({"", "start", "peak", "end"});
  const auto row = [&](const char* name, Bytes alloc::Usage::*bytes) {
    table.row({name, format_bytes(replay.at_start.*bytes), format_bytes(replay.peak.*bytes),
               format_bytes(replay.at_end.*bytes)});
  };
  row("requested", &alloc::Usage::requested);
  row("allocated", &alloc::Usage::allocated);
  row("active", &alloc::Usage::active);
  row("reserved", &alloc::Usage::reserved);
  if (replay.peak.reserved != replay.peak_reserved_recorded)
    table.row({"as recorded", "", format_bytes(replay.peak_reserved_recorded), ""});
  std::string text = "\n" + table.text(2);
  if (replay.retries > 0 || replay.ooms > 0)
    text += fmt::format("  retries: {}, out of memory: {}\n", format_count(replay.retries),
                        format_count(replay.ooms));
  if (replay.start.ambiguous.size() > 0)
    text += fmt::format(
        "  blocks from before the window that may be larger than known: {}, by at most {} in all\n",
        count(replay.start.ambiguous.size()), format_bytes(replay.start.upper_slack()));
  return text;
}

std::string holders(const MemoryTrace& trace) {
  const auto share = [&](Bytes bytes) {
    return fmt::format("{:.1f} %", 100 * static_cast<double>(bytes) /
                                       static_cast<double>(trace.replay.peak.allocated));
  };
  std::string text = fmt::format(
      "\n  held at the peak ({} allocated{}) by\n", format_bytes(trace.replay.peak.allocated),
      trace.replay.peak_event ? fmt::format(", event {}", *trace.replay.peak_event)
                              : ", at the start");
  TextTable frames;
  for (std::size_t i = 0; i < std::min(trace.holders.by_frame.size(), kMostFrames); ++i) {
    const tasks::Holder& holder = trace.holders.by_frame[i];
    frames.row({frame_text(holder.frame), count(holder.blocks), format_bytes(holder.bytes),
                share(holder.bytes)});
  }
  if (trace.holders.by_frame.size() > kMostFrames)
    frames.row({fmt::format("{} others", trace.holders.by_frame.size() - kMostFrames)});
  TextTable sizes;
  for (std::size_t i = 0; i < std::min(trace.holders.by_size.size(), kMostSizes); ++i) {
    const tasks::Holder& holder = trace.holders.by_size[i];
    sizes.row({"blocks of " + format_bytes(holder.block_bytes), count(holder.blocks),
               format_bytes(holder.bytes), share(holder.bytes)});
  }
  return text + frames.text(4) + "\n" + sizes.text(4);
}

std::string what_if(const MemoryTrace& trace, alloc::WhatIfStart start) {
  if (trace.what_if.empty()) return {};
  TextTable table;
  table.row({"what if", "allocated", "active", "reserved", "unused", "retries", "OOMs"});
  for (const tasks::WhatIfRow& row : trace.what_if)
    table.row({row.name, format_bytes(row.figures.peak.allocated),
               format_bytes(row.figures.peak.active), format_bytes(row.figures.peak.reserved),
               fmt::format("{:.1f} %", 100 * row.figures.fragmentation()),
               format_count(row.figures.retries), format_count(row.figures.ooms)});
  std::string text = "\n" + table.text(2);
  if (!trace.replay.exact())
    text += "  the replay is not exact: these compare with each other, less with the recording\n";
  if (const auto& capacity = trace.what_if.front().capacity)
    text += fmt::format("  with {} of device memory\n", format_bytes(*capacity));
  const Bytes warm = trace.replay.at_start.reserved;
  if (start == alloc::WhatIfStart::recorded && warm > 0)
    text += fmt::format(
        "  each starts with the {} that the window's start had reserved; --what-if-start cold "
        "with none\n",
        format_bytes(warm));
  return text;
}

}  // namespace

std::string memory_text(const tasks::MemoryReport& report) {
  const std::string conf = alloc::to_string(report.config);
  std::string text = fmt::format("{}\n  recorded under {}\n", printable(report.source),
                                 conf.empty() ? "the default configuration" : conf);
  for (const MemoryTrace& trace : report.traces) {
    text += fmt::format("\nDevice {}: {} events\n", trace.device, count(trace.events));
    text += verdict(trace) + usage(trace.replay);
    if (trace.replay.peak.allocated > 0) text += holders(trace);
    text += what_if(trace, report.start);
  }
  return text;
}

}  // namespace foregather::cli
