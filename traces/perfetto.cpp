#include "traces/perfetto.h"

#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "core/base/json_writer.h"
#include "traces/chrome.h"
#include "traces/tar.h"

namespace foregather::traces {
namespace {

struct Member {
  std::string path, machine;
  Ns later = 0;  ///< how far behind its own times it is shown
  std::shared_ptr<const ChromeTrace> trace;
  ChromePart part;
};

std::vector<Member> members_of(std::span<const PlacedRun> runs) {
  std::vector<std::shared_ptr<const ChromeTrace>> traces;
  std::vector<Ns> zeros;  // in the traces
  for (const PlacedRun& placed : runs) {
    traces.push_back(std::make_shared<const ChromeTrace>(*placed.run));
    zeros.push_back(placed.zero + traces.back()->shift());
  }
  const Ns zero = *std::max_element(zeros.begin(), zeros.end());
  std::vector<Member> members;
  std::uint64_t arrows = 0;
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const run::Run& run = *runs[i].run;
    const bool is_only = std::count_if(runs.begin(), runs.end(), [&](const PlacedRun& other) {
                           return other.run->about.kind == run.about.kind;
                         }) == 1;
    const std::string machine =
        fmt::format("{}{}", name(run.about.kind), is_only ? "" : fmt::format("_{}", i + 1));
    for (std::size_t c = 0; c < run.classes.size(); ++c)
      members.push_back({fmt::format("{}/rank_{}.json", machine, run.classes[c].ranks.front()),
                         machine,
                         zero - zeros[i],
                         traces[i],
                         {run::ClassRow(c), arrows}});
    arrows += run.ops.size();
  }
  // The first one is the reference.
  std::stable_sort(members.begin(), members.end(),
                   [](const Member& a, const Member& b) { return a.later < b.later; });
  return members;
}

std::string manifest(std::span<const Member> members) {
  JsonWriter json;
  json.begin_object().key("perfetto_manifest").begin_object().field("version", 1);
  json.key("files").begin_array();
  for (const Member& member : members) {
    json.begin_object().field("path", member.path);
    json.key("machine").begin_object().field("name", member.machine).end_object();
    if (&member != &members.front()) {
      json.key("clocks").begin_object().key("sync_to").begin_object();
      json.field("file", members.front().path).end_object();
      json.field("offset_ns", member.later).end_object();
    }
    json.end_object();
  }
  json.end_array().end_object().end_object();
  return json.text() + "\n";
}

Status add(const std::string& path, Bytes bytes, const std::function<Status()>& content,
           const TextSink& sink) {
  const auto header = tar_header({path, bytes});
  if (!header) return tl::unexpected(header.error());
  if (Status written = sink(*header); !written) return written;
  if (Status written = content(); !written) return written;
  return sink(tar_padding(bytes));
}

}  // namespace

Status write_perfetto(std::span<const PlacedRun> runs, const TextSink& sink) {
  const std::vector<Member> members = members_of(runs);
  const std::string text = manifest(members);
  if (Status added = add(
          std::string(kPerfettoManifest), static_cast<Bytes>(text.size()),
          [&] { return sink(text); }, sink);
      !added)
    return added;
  for (const Member& member : members) {
    Bytes bytes = 0;
    const Status counted = member.trace->write(member.part, [&](std::string_view piece) -> Status {
      bytes += static_cast<Bytes>(piece.size());
      return {};
    });
    if (!counted) return counted;
    if (Status added = add(
            member.path, bytes, [&] { return member.trace->write(member.part, sink); }, sink);
        !added)
      return added;
  }
  return sink(tar_end());
}

}  // namespace foregather::traces
