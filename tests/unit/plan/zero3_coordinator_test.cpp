// What ZeRO-3 gathers and releases: by hand, and laws over random models.
#include <algorithm>
#include <numeric>
#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "core/plan/zero3_coordinator.h"

using foregather::plan::Zero3Coordinator;
using Rows = Zero3Coordinator::Rows;
using Limits = Zero3Coordinator::Limits;

namespace {

constexpr std::int64_t kMany = 1'000'000'000;

/// Submodules 0 … n − 1 with one parameter of 10 elements each, run forward and then backward.
struct Chain {
  explicit Chain(std::uint32_t n, const Limits& limits)
      : coordinator(limits, std::vector<Zero3Coordinator::Parameter>(n, {10, false}), rows(n)),
        count(n) {}

  static std::vector<Rows> rows(std::uint32_t n) {
    std::vector<Rows> all;
    for (std::uint32_t row = 0; row < n; ++row) all.push_back({row});
    return all;
  }

  /// "f0 w0 p1,2 r0 …": fetched, awaited, prefetched, released.
  std::string step() {
    std::string text;
    const auto note = [&](char what, const Rows& some) {
      if (some.empty()) return;
      if (!text.empty()) text += ' ';
      text += what;
      for (std::size_t i = 0; i < some.size(); ++i)
        text += (i > 0 ? "," : "") + std::to_string(some[i]);
    };
    const auto visit = [&](std::uint32_t submodule) {
      const Zero3Coordinator::Entry entry = coordinator.enter(submodule);
      note('f', entry.fetched);
      note('w', entry.awaited);
      note('p', entry.prefetched);
      note('r', coordinator.leave(submodule));
    };
    coordinator.begin_forward();
    for (std::uint32_t s = 0; s < count; ++s) visit(s);
    for (std::uint32_t s = count; s-- > 0;) visit(s);
    coordinator.release_all();
    return text;
  }

  Zero3Coordinator coordinator;
  std::uint32_t count;
};

/// Any tree walked twice, forward and backward; persistent and shared parameters.
struct RandomModel {
  std::vector<Zero3Coordinator::Parameter> parameters;
  std::vector<Rows> submodules;
  Limits limits;
};

RandomModel random_model() {
  RandomModel model;
  const auto rows = *rc::gen::inRange<std::uint32_t>(1, 12);
  for (std::uint32_t row = 0; row < rows; ++row)
    model.parameters.push_back(
        {*rc::gen::inRange<std::int64_t>(1, 100), *rc::gen::inRange(0, 4) == 0});
  const auto submodules = *rc::gen::inRange<std::uint32_t>(1, 10);
  for (std::uint32_t s = 0; s < submodules; ++s) {
    Rows own;
    for (std::uint32_t row = 0; row < rows; ++row)
      if (*rc::gen::inRange(0, 4) == 0) own.push_back(row);
    model.submodules.push_back(own);
  }
  model.limits = {*rc::gen::inRange<std::int64_t>(0, 200), *rc::gen::inRange<std::int64_t>(0, 400),
                  *rc::gen::inRange<std::int64_t>(0, 400)};
  return model;
}

}  // namespace

TEST_CASE("the first step of ZeRO-3 fetches for each submodule and releases all it used") {
  Chain chain(3, {kMany, kMany, kMany});
  CHECK(chain.step() == "f0 w0 r0 f1 w1 r1 f2 w2 r2 f2 w2 r2 f1 w1 r1 f0 w0 r0");
}

TEST_CASE("from the second step on ZeRO-3 fetches ahead in the recorded order") {
  // One ahead; nothing is used again within so short a distance but by the next submodule. Uses
  // that the prefetcher passes keep what is there.
  Chain chain(3, {10, kMany, 1});
  chain.step();
  CHECK(chain.step() == "f0 w0 p1 r0 w1 p2 r1 w2 p1 p0 r2 w1 r1 w0 r0");
  Chain all(3, {kMany, kMany, kMany});
  all.step();
  CHECK(all.step() == "f0 w0 p1,2 w1 w2 r2 r1 r0");
}

TEST_CASE("without prefetching ZeRO-3 keeps what is used again within the reuse distance") {
  Chain near(3, {0, kMany, 10});
  near.step();
  CHECK(near.step() == "f0 w0 r0 f1 w1 r1 f2 w2 r2 f1 w1 r1 f0 w0 r0");
  // The distance to the next use counts what lies between, and the submodule that reaches it whole.
  Chain far(3, {0, kMany, 30});
  far.step();
  CHECK(far.step() == "f0 w0 r0 f1 w1 f2 w2 r2 r1 f0 w0 r0");
}

TEST_CASE("ZeRO-3 gathers beyond its limits only what runs, and the last parameter of a prefetch") {
  CHECK(rc::check([] {
    const RandomModel model = random_model();
    Zero3Coordinator coordinator(model.limits, model.parameters, model.submodules);
    const auto elements = [&](const Rows& rows) {
      return std::accumulate(rows.begin(), rows.end(), std::int64_t{0},
                             [&](std::int64_t sum, std::uint32_t row) {
                               return sum + model.parameters[row].elements;
                             });
    };
    const auto visit = [&](std::uint32_t submodule) {
      const std::int64_t before = coordinator.gathered_elements();
      const Zero3Coordinator::Entry entry = coordinator.enter(submodule);
      for (const std::uint32_t row : model.submodules[submodule])
        RC_ASSERT(coordinator.is_gathered(row));
      const std::int64_t ahead = elements(entry.prefetched);
      if (entry.prefetched.empty()) return;
      std::int64_t largest = 0;
      for (const std::uint32_t row : entry.prefetched)
        largest = std::max(largest, model.parameters[row].elements);
      RC_ASSERT(ahead < model.limits.prefetch_bucket + largest);
      RC_ASSERT(before + elements(entry.fetched) + ahead < model.limits.max_live + largest);
    };
    for (int step = 0; step < 4; ++step) {
      RC_ASSERT(coordinator.begin_forward().empty());
      for (std::uint32_t s = 0; s < model.submodules.size(); ++s) {
        visit(s);
        coordinator.leave(s);
      }
      for (auto s = static_cast<std::uint32_t>(model.submodules.size()); s-- > 0;) {
        visit(s);
        coordinator.leave(s);
      }
      coordinator.release_all();
      for (std::uint32_t row = 0; row < model.parameters.size(); ++row)
        RC_ASSERT(!coordinator.is_gathered(row));
    }
  }));
}

TEST_CASE("persistent parameters of ZeRO-3 are gathered once a step, after the optimizer") {
  CHECK(rc::check([] {
    const RandomModel model = random_model();
    Zero3Coordinator coordinator(model.limits, model.parameters, model.submodules);
    for (int step = 0; step < 4; ++step) {
      coordinator.begin_forward();
      const auto visit = [&](std::uint32_t s) {
        const Zero3Coordinator::Entry entry = coordinator.enter(s);
        const Rows released = coordinator.leave(s);
        if (step == 0) return;
        for (const Rows* rows : {&entry.fetched, &entry.prefetched, &released})
          for (const std::uint32_t row : *rows) RC_ASSERT(!model.parameters[row].persists);
      };
      for (std::uint32_t s = 0; s < model.submodules.size(); ++s) visit(s);
      for (auto s = static_cast<std::uint32_t>(model.submodules.size()); s-- > 0;) visit(s);
      coordinator.release_all();
      for (const std::uint32_t row : coordinator.gather_persistent())
        RC_ASSERT(model.parameters[row].persists);
    }
  }));
}
