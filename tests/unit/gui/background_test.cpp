// What the window does on other threads, without a window.
#include <algorithm>
#include <array>
#include <atomic>
#include <numeric>
#include <optional>
#include <thread>
#include <vector>
#include <catch2/catch.hpp>

#include "core/base/interrupt.h"
#include "core/store/reader.h"
#include "gui/models/inbox.h"
#include "gui/models/latest_job.h"
#include "gui/models/loader.h"
#include "tasks/any_run.h"
#include "tests/support/example_run.h"
#include "tests/support/places.h"
#include "tests/support/scratch.h"
#include "tests/support/written_run.h"
#include "tests/unit/gui/opened.h"

using namespace foregather;
using namespace foregather::gui;
using namespace std::chrono_literals;

namespace {

/// The thread of the windows, played by the test's.
class Events {
 public:
  Post post() {
    return [this](std::function<void()> what) { inbox_.put(std::move(what)); };
  }
  /// Runs what was posted until `is_done`.
  template <class Done>
  bool run_until(Done&& is_done) {
    for (int i = 0; i < 20'000 && !is_done(); ++i) {
      run();
      std::this_thread::sleep_for(1ms);
    }
    return is_done();
  }
  void run() {
    while (inbox_.run_next()) {
    }
  }

 private:
  Inbox inbox_;
};

Result<OpenRun> example(const std::string& location) {
  if (location == "absent") return fail_at(location, "is not there");
  return OpenRun{std::make_shared<const run::Run>(test::example_run()), location, {}};
}

void ignore_progress(std::optional<int> /*percent*/, const std::string& /*what*/) {}

}  // namespace

TEST_CASE("background: the newest job runs, however fast they come") {
  std::atomic<int> ran = 0, last = -1;
  {
    std::atomic<bool> began = false, may_go = false;
    LatestJob jobs;
    jobs.start([&] {
      began = true;
      while (!may_go) std::this_thread::yield();
    });
    while (!began) std::this_thread::yield();
    for (int i = 0; i < 100; ++i)
      jobs.start([&ran, &last, i] {
        ++ran;
        last = i;
      });
    CHECK(jobs.is_busy());
    may_go = true;
    for (int i = 0; i < 20'000 && jobs.is_busy(); ++i) std::this_thread::sleep_for(1ms);
  }
  CHECK(last == 99);
  CHECK(ran == 1);
}

TEST_CASE("background: going while a job runs waits for it and drops the next") {
  std::atomic<bool> began = false, ended = false, next = false;
  {
    LatestJob jobs;
    jobs.start([&] {
      began = true;
      std::this_thread::sleep_for(20ms);
      ended = true;
    });
    while (!began) std::this_thread::yield();
    jobs.start([&] { next = true; });
  }
  CHECK(ended);
  CHECK_FALSE(next);
}

TEST_CASE("background: what threads post runs once, that of each in its order") {
  constexpr int kThreads = 3, kPosts = 200;
  Events events;
  std::array<std::vector<int>, kThreads> ran;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < kThreads; ++t)
      threads.emplace_back([&, t, post = events.post()] {
        for (int i = 0; i < kPosts; ++i)
          post([&of = ran[static_cast<std::size_t>(t)], i] { of.push_back(i); });
      });
    CHECK(events.run_until([&] {
      return std::ranges::all_of(ran, [](const auto& of) { return of.size() == kPosts; });
    }));
  }
  events.run();
  std::vector<int> all(kPosts);
  std::iota(all.begin(), all.end(), 0);
  for (const auto& of : ran) CHECK(of == all);
}

TEST_CASE("background: knobs turned one after the other end with the last one's prediction") {
  Events events;
  std::size_t handed = 0;
  std::int64_t shown = 0;
  {
    LatestJob jobs;
    for (int batch = 1; batch <= 6; ++batch) {
      jobs.start([&, batch, post = events.post()] {
        const run::Run run = test::simulated_tiny({"train.micro_batch=" + std::to_string(batch)});
        const std::int64_t step = run.steps.back().end - run.steps.back().begin;
        post([&, step] {
          shown = step;
          ++handed;
        });
      });
      events.run();
    }
    REQUIRE(events.run_until([&] { return !jobs.is_busy(); }));
    events.run();
  }
  const run::Run last = test::simulated_tiny({"train.micro_batch=6"});
  CHECK(shown == last.steps.back().end - last.steps.back().begin);
  CHECK(handed >= 1);
}

TEST_CASE("background: files become a document on another thread") {
  Events events;
  Loader loader(example, events.post());
  std::shared_ptr<const Document> document;
  loader.start({"a", "b"}, {}, {0, 1}, ignore_progress, [&](Loader::Loaded loaded) {
    REQUIRE(loaded.document);
    document = *loaded.document;
    CHECK(loaded.runs.size() == 2);
  });
  CHECK(loader.is_running());
  REQUIRE(events.run_until([&] { return !loader.is_running(); }));
  REQUIRE(document);
  CHECK(document->session.sides() == 2);
}

TEST_CASE("background: how far reading is, is told of several files, and not known of one") {
  const auto told = [](std::vector<std::string> files, std::vector<OpenRun> known) {
    Events events;
    Loader loader(example, events.post());
    std::vector<std::optional<int>> percents;
    loader.start(
        std::move(files), std::move(known), {0},
        [&](std::optional<int> percent, const std::string&) { percents.push_back(percent); },
        [](const Loader::Loaded&) {});
    REQUIRE(events.run_until([&] { return !loader.is_running(); }));
    return percents;
  };
  using Percents = std::vector<std::optional<int>>;
  CHECK(told({"a"}, {}) == Percents{std::nullopt, 90});
  CHECK(told({"a", "b"}, {*example("a")}) == Percents{std::nullopt, 90});
  CHECK(told({"a", "b", "c"}, {}) == Percents{0, 30, 60, 90});
}

TEST_CASE("background: what cannot be read is said, and what can be is shown") {
  Events events;
  Loader loader(example, events.post());
  const auto load = [&](std::vector<std::string> files, std::vector<std::size_t> shown) {
    std::optional<Loader::Loaded> result;
    loader.start(std::move(files), {}, std::move(shown), ignore_progress,
                 [&](Loader::Loaded loaded) { result = std::move(loaded); });
    REQUIRE(events.run_until([&] { return !loader.is_running(); }));
    return *result;
  };
  const Loader::Loaded some = load({"absent", "a"}, {0, 1});
  REQUIRE(some.document);
  CHECK((*some.document)->session.open_run(0).location == "a");
  REQUIRE(some.unread.size() == 1);
  CHECK(some.unread[0].text() == "absent: is not there");
  const Loader::Loaded none = load({"absent"}, {0});
  REQUIRE_FALSE(none.document);
  CHECK(none.document.error().text() == "absent: is not there");
}

TEST_CASE("background: a canceled loading hands over nothing, and closing during one is clean") {
  Events events;
  bool handed = false;
  for (int i = 0; i < 20; ++i) {
    Loader loader(example, events.post());
    loader.start({"a"}, {}, {0}, ignore_progress, [&](Loader::Loaded) { handed = true; });
    if (i % 2 == 0) loader.cancel();
  }
  events.run();
  CHECK_FALSE(handed);
}

TEST_CASE("background: another start takes the place of the last") {
  Events events;
  Loader loader(example, events.post());
  std::string shown;
  for (const char* name : {"a", "b", "c"})
    loader.start({name}, {}, {0}, ignore_progress, [&](Loader::Loaded loaded) {
      REQUIRE(loaded.document);
      shown += (*loaded.document)->session.open_run(0).location;
    });
  REQUIRE(events.run_until([&] { return !loader.is_running(); }));
  CHECK(shown == "c");
}

TEST_CASE("background: a canceled reading of a database gives up between rows") {
  const test::Scratch folder;
  const std::string path = test::written(folder.path("run.db"), test::example_run());
  std::atomic<bool> stop = false;
  const Interruptible scope(stop);
  CHECK(store::read_run(path));
  stop = true;
  const auto run = store::read_run(path);
  REQUIRE_FALSE(run);
  CHECK(run.error().text() == path + ": reading was canceled");
}

TEST_CASE("background: closing while real files are read and knobs simulated is clean") {
  Events events;
  const std::string workload = test::source_dir() + "/traces/samples/tiny_fsdp2.toml";
  const auto read = [](const std::string& location) -> Result<OpenRun> {
    auto any = tasks::load_any_run(location);
    if (!any) return tl::unexpected(any.error());
    return OpenRun{std::make_shared<const run::Run>(std::move(any->run)), location, {}};
  };
  int handed = 0;
  for (int i = 0; i < 6; ++i) {
    Loader loader(read, events.post());
    LatestJob jobs;
    loader.start({workload}, {}, {0}, ignore_progress, [&](Loader::Loaded) { ++handed; });
    for (int batch = 1; batch <= 3; ++batch)
      jobs.start([batch] { test::simulated_tiny({"train.micro_batch=" + std::to_string(batch)}); });
    std::this_thread::sleep_for(std::chrono::milliseconds(i));
  }
  CHECK(handed == 0);  // nobody looked at the events while the loaders lived
}
