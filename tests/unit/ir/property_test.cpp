// What must hold of every schedule and of every text.
#include <catch2/catch.hpp>
#include <rapidcheck.h>

#include "core/ir/dump.h"
#include "core/ir/references.h"
#include "tests/fixtures/fixtures.h"
#include "tests/support/random_graph.h"
#include "tests/unit/ir/edit.h"

using namespace foregather;
using namespace foregather::test;

namespace {

// Either the text is a schedule, and then a sound one, or the error has a place in it.
void read_hostile(const std::string& text) {
  const Result<Graph> graph = read_dump(text, "x.fg");
  if (!graph) {
    const std::string error = graph.error().text();
    RC_ASSERT(graph.error().place.substr(0, 5) == "x.fg:");
    RC_ASSERT(std::count(graph.error().place.begin(), graph.error().place.end(), ':') == 2);
    RC_ASSERT(!graph.error().message.empty());
    RC_ASSERT(error.find('\n') == std::string::npos);
    return;
  }
  RC_ASSERT(check_references(*graph).empty());
  validate(*graph);
  const std::string again = dump(*graph);
  const Result<Graph> back = read_dump(again, "y.fg");
  RC_ASSERT(back.has_value());
  RC_ASSERT(dump(*back) == again);
}

std::string some_dump() {
  const auto fixtures = all_fixtures();
  const auto which = *rc::gen::inRange<std::size_t>(0, fixtures.size() + 1);
  return dump(which < fixtures.size() ? fixtures[which].second()
                                      : random_graph(*rc::gen::arbitrary<std::uint64_t>()));
}

}  // namespace

TEST_CASE("random schedules are valid and round-trip") {
  CHECK(rc::check([] {
    const Graph graph = random_graph(*rc::gen::arbitrary<std::uint64_t>());
    const auto problems = validate(graph);
    if (!problems.empty()) RC_FAIL(text_of(problems));
    const std::string text = dump(graph);
    const Result<Graph> back = read_dump(text, "x.fg");
    if (!back) RC_FAIL(back.error().text());
    RC_ASSERT(dump(*back) == text);
    RC_ASSERT(back->storages == graph.storages);
    RC_ASSERT(back->tensors == graph.tensors);
    RC_ASSERT(back->dims == graph.dims);
    RC_ASSERT(back->accesses == graph.accesses);
    RC_ASSERT(back->op_lists == graph.op_lists);
    RC_ASSERT(back->ops == graph.ops);
    RC_ASSERT(back->costs == graph.costs);
    RC_ASSERT(back->programs == graph.programs);
    RC_ASSERT(back->classes == graph.classes);
    RC_ASSERT(back->groups == graph.groups);
    RC_ASSERT(back->rank_lists == graph.rank_lists);
  }));
}

TEST_CASE("changed bytes in a dump are an error with a place, or another schedule") {
  CHECK(rc::check([] {
    std::string text = some_dump();
    for (int changes = *rc::gen::inRange(1, 6); changes > 0; --changes)
      text[*rc::gen::inRange<std::size_t>(0, text.size())] = *rc::gen::arbitrary<char>();
    read_hostile(text);
  }));
}

TEST_CASE("a dump cut short is an error with a place") {
  CHECK(rc::check([] {
    const std::string text = some_dump();
    const std::string cut = text.substr(0, *rc::gen::inRange<std::size_t>(0, text.size() - 4));
    RC_ASSERT(!read_dump(cut, "x.fg").has_value());
    read_hostile(cut);
  }));
}

TEST_CASE("lines and digits out of order do no harm") {
  CHECK(rc::check([] {
    std::string text = some_dump();
    const auto place = [&] { return *rc::gen::inRange<std::size_t>(0, text.size()); };
    for (int changes = *rc::gen::inRange(1, 4); changes > 0; --changes) {
      const std::size_t at = text.find_first_of("0123456789", place());
      if (at != std::string::npos)
        text.replace(at, 1,
                     *rc::gen::element<std::string>("0", "7", "4294967295", "2147483647",
                                                    "99999999999", "-1", ""));
      const std::size_t from = text.find('\n', place());
      const std::size_t to = text.find('\n', place());
      if (from != std::string::npos && to != std::string::npos && from < to)
        text.insert(to, text.substr(from, std::min<std::size_t>(to - from, 200)));
    }
    read_hostile(text);
  }));
}

// A graph whose references are broken at random must not crash the check.
TEST_CASE("random numbers in the tables are no harm") {
  CHECK(rc::check([] {
    const auto fixtures = all_fixtures();
    Graph graph = fixtures[*rc::gen::inRange<std::size_t>(0, fixtures.size())].second();
    const auto spoil = [](auto& rows) {
      if (rows.empty()) return;
      using Row = std::remove_reference_t<decltype(rows[0])>;
      static_assert(std::is_trivially_copyable_v<Row>);
      auto* bytes =
          reinterpret_cast<unsigned char*>(&rows[*rc::gen::inRange<std::size_t>(0, rows.size())]);
      // Bools must stay bools.
      const std::size_t at = *rc::gen::inRange<std::size_t>(0, sizeof(Row) / 4) * 4;
      if constexpr (!std::is_same_v<Row, Cost> && !std::is_same_v<Row, Storage>)
        bytes[at] = *rc::gen::arbitrary<unsigned char>();
    };
    spoil(graph.ops);
    spoil(graph.accesses);
    spoil(graph.tensors);
    spoil(graph.groups);
    spoil(graph.communicators);
    spoil(graph.classes);
    spoil(graph.programs[0].threads[0].sections[2]);
    spoil(graph.rank_lists);
    validate(graph);
  }));
}
