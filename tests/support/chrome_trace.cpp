#include "tests/support/chrome_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "traces/chrome.h"

namespace foregather::test {
namespace {

using Json = nlohmann::json;
using Track = std::pair<int, int>;

Ns nanoseconds(const Json& microseconds) {
  return std::llround(microseconds.get<double>() * 1000.0);
}

Track track_of(const Json& event) { return {event.at("pid"), event.at("tid")}; }

void check_tracks(ChromeView& view) {
  for (auto& [track, slices] : view.tracks) {
    std::stable_sort(slices.begin(), slices.end(), [](const auto& a, const auto& b) {
      return std::pair(a.begin, -a.end) < std::pair(b.begin, -b.end);
    });
    std::vector<const ChromeSlice*> open;
    for (const ChromeSlice& slice : slices) {
      while (!open.empty() && open.back()->end <= slice.begin) open.pop_back();
      // An empty one at the begin of another one is no overlap.
      if (!open.empty() && slice.begin == slice.end && slice.begin == open.back()->begin) continue;
      if (!open.empty() && (slice.end > open.back()->end || slice.category != "wait"))
        view.faults.push_back(fmt::format("{}/{}: '{}' lies over '{}'", track.first, track.second,
                                          slice.name, open.back()->name));
      open.push_back(&slice);
    }
    if (!view.threads.contains(track) || !view.processes.contains(track.first))
      view.faults.push_back(fmt::format("{}/{} has no name", track.first, track.second));
    if (track.first == 0 || track.second == 0)
      view.faults.push_back(fmt::format("{}/{} is a number that viewers take for another track",
                                        track.first, track.second));
  }
}

// The slice of an op or a launch that holds the time; of two the one that begins there.
const ChromeSlice* slice_at(const ChromeView& view, Track track, Ns time) {
  const ChromeSlice* found = nullptr;
  const auto slices = view.tracks.find(track);
  if (slices == view.tracks.end()) return nullptr;
  for (const ChromeSlice& slice : slices->second)
    if (slice.category != "wait" && slice.begin <= time &&
        (time < slice.end || time == slice.begin))
      found = &slice;
  return found;
}

void check_arrows(ChromeView& view, const std::vector<Json>& ends) {
  std::map<std::pair<std::string, std::uint64_t>, std::vector<const Json*>> arrows;
  for (const Json& event : ends) arrows[{event.at("cat"), event.at("id")}].push_back(&event);
  for (const auto& [id, events] : arrows) {
    const std::string name = fmt::format("arrow {} {}", id.first, id.second);
    if (events.size() != 2 || events[0]->at("ph") != "s" || events[1]->at("ph") != "f") {
      view.faults.push_back(name + " has not one begin and one end behind it");
      continue;
    }
    const Ns from = nanoseconds(events[0]->at("ts")), to = nanoseconds(events[1]->at("ts"));
    const ChromeArrow arrow{id.first, events[0]->at("name"),
                            slice_at(view, track_of(*events[0]), from),
                            slice_at(view, track_of(*events[1]), to)};
    if (from > to) view.faults.push_back(name + " leads back");
    if (arrow.from == nullptr || arrow.to == nullptr)
      view.faults.push_back(name + " has an end outside of all slices");
    view.arrows.push_back(arrow);
  }
}

}  // namespace

std::vector<const ChromeSlice*> ChromeView::named(std::string_view name) const {
  std::vector<const ChromeSlice*> found;
  for (const auto& [track, slices] : tracks)
    for (const ChromeSlice& slice : slices)
      if (slice.name == name) found.push_back(&slice);
  return found;
}

ChromeView read_chrome(std::string_view text) {
  const Json trace = Json::parse(text);
  ChromeView view;
  std::vector<Json> ends;
  for (const Json& event : trace.at("traceEvents")) {
    const std::string phase = event.at("ph");
    const Track track = track_of(event);
    if (phase == "M") {
      if (event.at("name") == "process_name")
        view.processes[track.first] = event.at("args").at("name");
      if (event.at("name") == "thread_name") view.threads[track] = event.at("args").at("name");
      continue;
    }
    const Ns time = nanoseconds(event.at("ts"));
    if (time < 0) view.faults.push_back(fmt::format("{} is before time 0", event.dump()));
    if (phase == "X") {
      ChromeSlice slice{event.at("cat"), event.at("name"), event.at("args").value("key", ""), time,
                        time + nanoseconds(event.at("dur"))};
      view.tracks[track].push_back(std::move(slice));
    } else if (phase == "C") {
      for (const auto& [series, value] : event.at("args").items())
        view.counters[track.first]
                     [fmt::format("{} {}", event.at("name").get<std::string>(), series)]
                         .emplace_back(time, value);
    } else if (phase == "s" || phase == "f") {
      ends.push_back(event);
    }
  }
  check_tracks(view);
  check_arrows(view, ends);
  return view;
}

std::string chrome_text(run::RunView run) {
  std::string text;
  const Status done = traces::ChromeTrace(run).write({}, [&](std::string_view piece) -> Status {
    text += piece;
    return {};
  });
  return done ? text : std::string();
}

}  // namespace foregather::test
