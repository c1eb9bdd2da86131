// Texts that only rare reports have.
#include <pty.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>

#include "cli/memory_text.h"
#include "cli/progress.h"
#include "cli/search_text.h"

using namespace foregather;

namespace {

// Standard error is a terminal while it lives.
class Terminal {
 public:
  Terminal() {
    int own = -1, theirs = -1;
    REQUIRE(::openpty(&own, &theirs, nullptr, nullptr, nullptr) == 0);
    own_ = own;
    before_ = ::dup(STDERR_FILENO);
    ::dup2(theirs, STDERR_FILENO);
    ::close(theirs);
  }
  ~Terminal() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    ::close(own_);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;

  /// What has arrived on it.
  std::string text() const {
    std::array<char, 4096> bytes{};
    const auto size = ::read(own_, bytes.data(), bytes.size());
    return {bytes.data(), static_cast<std::size_t>(std::max<ssize_t>(size, 0))};
  }

 private:
  int own_ = -1, before_ = -1;
};

}  // namespace

TEST_CASE("progress is one line of a terminal, which goes away") {
  const Terminal terminal;
  {
    cli::ProgressLine line;
    line.show(0.5, [] { return "7 points"; });
    CHECK_THAT(terminal.text(),
               Catch::StartsWith("\r[###############               ]  50 %  7 points, ") &&
                   Catch::EndsWith(" s left \033[K"));
  }
  CHECK(terminal.text() == "\r\033[K");
}

TEST_CASE("what a search has not proved is said in the unit of its goal") {
  tasks::SearchReport report;
  report.goal = tasks::SearchGoal::gpu_time_per_token;
  report.request.memory_limit = 2 * GiB;
  report.info.points = 10;
  report.simulated = 4;
  report.best.emplace();
  report.best->point.figures.times = run::PointFigures::Times();
  report.grid_gap = 0.25;
  report.blocks.emplace();
  report.blocks->floor = 31'400'000;  // ps
  report.blocks->gap = 0.125;
  report.blocks->solver = "GLPK";
  const std::string text = cli::search_text(report);
  CHECK_THAT(text, Catch::Contains("Not proved: another point could be up to 20.0 % better.\n"));
  CHECK_THAT(text, Catch::Contains("Not proved: no set that fits is below 31.4 µs a token (GLPK); "
                                   "the gap is 12.5 %.\n"));
  report.goal = tasks::SearchGoal::memory;
  report.request.memory_limit.reset();
  report.request.time_limit = kSecond;
  report.blocks->floor = 3 * GiB;
  CHECK_THAT(cli::search_text(report),
             Catch::Contains("no set that fits is below 3.00 GiB (GLPK)"));
}

TEST_CASE("what misses a limit by less than is printed says by how much") {
  tasks::SearchReport report;
  report.goal = tasks::SearchGoal::memory;
  report.request.time_limit = kSecond;
  report.closest.emplace();
  report.closest->is_simulated = true;
  report.closest->need = kSecond + 1234;
  CHECK_THAT(cli::search_text(report),
             Catch::Contains("closest: takes 1.000 s, and 1.23 µs more\n"));
  report.closest->need = kSecond + kMillisecond;
  CHECK_THAT(cli::search_text(report), Catch::Contains("closest: takes 1.001 s\n"));
  report.goal = tasks::SearchGoal::step_time;
  report.request.memory_limit = GiB;
  report.closest->need = GiB + 512;
  CHECK_THAT(cli::search_text(report),
             Catch::Contains("closest: needs 1.00 GiB, and 512 B more\n"));
}

TEST_CASE("blocks that may be larger than a snapshot says are counted, with how much") {
  tasks::MemoryReport report;
  tasks::MemoryTrace& trace = report.traces.emplace_back();
  CHECK_THAT(cli::memory_text(report), !Catch::Contains("larger than known"));
  trace.replay.start.ambiguous.resize(2);
  trace.replay.start.ambiguous[0].upper_slack = 512;
  trace.replay.start.ambiguous[1].upper_slack = 1024;
  CHECK_THAT(cli::memory_text(report),
             Catch::Contains("  blocks from before the window that may be larger than known: 2, by "
                             "at most 1.5 KiB in all\n"));
}
