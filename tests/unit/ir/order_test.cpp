// What orders two touches of one storage, and what does not.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "tests/fixtures/parts.h"
#include "tests/unit/ir/edit.h"

using namespace foregather;
using namespace foregather::test;

namespace {

using ProblemKinds = std::vector<ProblemKind>;

// One thread, two streams, one storage of 1 KiB that init allocates on the first stream.
struct TwoStreams {
  TwoStreams() {
    program = b.begin_program("p");
    left = b.stream("left");
    right = b.stream("right");
    b.thread("host");
    data = buffer(b, "data", 1024, Cause::temporary);
    select(Section::init);
    b.alloc(data.storage, left);
    select(Section::body);
  }
  void select(Section section) { b.select(0, section); }
  OpId touch(StreamId stream, Access mode, Bytes offset = 0, Bytes bytes = 1024) {
    OpSpec spec;
    spec.stream = stream;
    spec.cost = streaming(b, OpKind::copy, 64, 64);
    return op(b, spec, {{data.tensor, mode, offset, bytes}});
  }
  void launch(StreamId stream, Access mode, Bytes offset = 0, Bytes bytes = 1024) {
    b.launch(touch(stream, mode, offset, bytes));
  }
  std::vector<Problem> problems() {
    b.end_program();
    one_class(b, program, 1);
    return validate(b.finish());
  }

  GraphBuilder b;
  ProgramId program;
  StreamId left, right;
  Buffer data;
};

}  // namespace

TEST_CASE("what orders two streams") {
  TwoStreams two;
  // Each body ends in order.
  const auto finish = [&] {
    two.b.host_wait_device();
    return two.problems();
  };
  SECTION("nothing") {
    two.launch(two.left, Access::write);
    two.launch(two.right, Access::read);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("two reads need no order") {
    two.launch(two.left, Access::read);
    two.launch(two.right, Access::read);
    CHECK(finish().empty());
  }
  SECTION("two accumulations do") {
    two.launch(two.left, Access::accumulate);
    two.launch(two.right, Access::accumulate);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("other bytes need no order") {
    two.launch(two.left, Access::write, 0, 512);
    two.launch(two.right, Access::write, 512, 512);
    CHECK(finish().empty());
  }
  SECTION("one shared byte does") {
    two.launch(two.left, Access::write, 0, 513);
    two.launch(two.right, Access::read, 512, 1);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("a slice conflicts with a touch of the whole") {
    two.launch(two.left, Access::read);
    two.launch(two.right, Access::write, 100, 1);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("no bytes, no conflict") {
    two.launch(two.left, Access::write);
    two.launch(two.right, Access::write, 8, 0);
    CHECK(finish().empty());
  }
  SECTION("an event") {
    two.launch(two.left, Access::write);
    order(two.b, two.right, two.b.event(), two.left);
    two.launch(two.right, Access::read);
    CHECK(finish().empty());
  }
  SECTION("an event recorded too early") {
    order(two.b, two.right, two.b.event(), two.left);
    two.launch(two.left, Access::write);
    two.launch(two.right, Access::read);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("the host waits for the event") {
    two.launch(two.left, Access::write);
    const EventId event = two.b.event();
    two.b.record(event, two.left);
    two.b.host_wait(event);
    two.launch(two.right, Access::read);
    CHECK(finish().empty());
  }
  SECTION("the host waits for the stream") {
    two.launch(two.left, Access::write);
    two.b.host_wait_stream(two.left);
    two.launch(two.right, Access::read);
    CHECK(finish().empty());
  }
  SECTION("the host waits for the other stream") {
    two.launch(two.left, Access::write);
    two.b.host_wait_stream(two.right);
    two.launch(two.right, Access::read);
    CHECK(kinds_of(finish()) == ProblemKinds{ProblemKind::hazard});
  }
  SECTION("an event carries what its stream had waited for") {
    const StreamId third = two.b.stream("third");
    two.launch(two.left, Access::write);
    order(two.b, third, two.b.event(), two.left);
    order(two.b, two.right, two.b.event(), third);
    two.launch(two.right, Access::read);
    CHECK(finish().empty());
  }
  SECTION("the step before counts") {
    two.launch(two.left, Access::read);
    order(two.b, two.right, two.b.event(), two.left);
    two.launch(two.right, Access::write);
    const auto problems = two.problems();
    CHECK(kinds_of(problems) == ProblemKinds{ProblemKind::hazard});
    CHECK(has(problems, ProblemKind::hazard, "the first one writing"));
  }
  SECTION("one hazard is told once") {
    two.launch(two.left, Access::write);
    two.launch(two.right, Access::read);
    CHECK(finish().size() == 1);
  }
}

TEST_CASE("collectives of one communicator are ordered, of two are not") {
  GraphBuilder b;
  const GroupId world = b.group("world", first_ranks(2), 1);
  const bool is_one = GENERATE(true, false);
  const CommunicatorId first = b.communicator("first", world);
  const CommunicatorId second = is_one ? first : b.communicator("second", world);
  const ProgramId program = b.begin_program("p");
  OpSpec spec;
  spec.cost = collective(b, OpKind::all_reduce, DType::f32, 1024, world);
  const Buffer data = buffer(b, "data", 1024, Cause::gradient);
  spec.stream = b.stream("left");
  spec.communicator = first;
  const OpId left = op(b, spec, {accumulate(data)});
  spec.stream = b.stream("right");
  spec.communicator = second;
  const OpId right = op(b, spec, {accumulate(data)});
  b.thread("host");
  b.select(0, Section::init);
  b.alloc(data.storage, StreamId(0));
  b.select(0, Section::body);
  b.launch(left);
  b.launch(right);
  b.host_wait_device();
  b.end_program();
  one_class(b, program, 2);
  CHECK(validate(b.finish()).empty() == is_one);
}

TEST_CASE("what another thread knows needs host_wait_action") {
  GraphBuilder b;
  const bool is_told = GENERATE(true, false);
  const ProgramId program = b.begin_program("p");
  const StreamId left = b.stream("left");
  const StreamId right = b.stream("right");
  const Buffer data = buffer(b, "data", 1024, Cause::temporary);
  OpSpec spec;
  spec.cost = streaming(b, OpKind::copy, 64, 64);
  spec.stream = left;
  const OpId writes = op(b, spec, {write(data)});
  spec.stream = right;
  const OpId reads = op(b, spec, {read(data)});
  b.thread("a");
  b.thread("b");
  b.select(0, Section::init);
  b.alloc(data.storage, left);
  b.select(0, Section::body);
  b.launch(writes);          // action 0
  b.host_wait_stream(left);  // action 1
  b.select(1, Section::body);
  b.host_wait_action(0, is_told ? 1 : 0);
  b.launch(reads);
  b.host_wait_device();
  b.end_program();
  one_class(b, program, 1);
  const auto problems = validate(b.finish());
  INFO(text_of(problems));
  CHECK(problems.empty() == is_told);
}

TEST_CASE("memory is handed on within a stream") {
  TwoStreams two;
  const Buffer next = buffer(two.b, "next", 1024, Cause::temporary);
  OpSpec spec;
  spec.cost = streaming(two.b, OpKind::copy, 64, 64);
  spec.stream = two.right;
  const OpId elsewhere = op(two.b, spec, {write(next)});
  spec.stream = two.left;
  const Buffer old = buffer(two.b, "old", 1024, Cause::temporary);
  const OpId before = op(two.b, spec, {write(old)});
  const bool is_ordered = GENERATE(true, false);
  two.launch(two.left, Access::read);
  two.b.alloc(old.storage, two.left);
  two.b.launch(before);
  two.b.free(old.storage);
  two.b.alloc(next.storage, two.left);  // may be where `old` was
  if (is_ordered) order(two.b, two.right, two.b.event(), two.left);
  two.b.launch(elsewhere);
  two.b.host_wait_device();
  two.b.free(next.storage);
  const auto problems = two.problems();
  INFO(text_of(problems));
  CHECK(problems.empty() == is_ordered);
  if (!is_ordered) CHECK(has(problems, ProblemKind::hazard, "(next)"));
}
