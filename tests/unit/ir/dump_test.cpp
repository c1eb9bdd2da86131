// The text form of a schedule, and the place of each mistake in it.
#include <catch2/catch.hpp>

#include "core/ir/builder.h"
#include "core/ir/dump.h"
#include "core/ir/references.h"
#include "tests/fixtures/fixtures.h"
#include "tests/fixtures/parts.h"

using namespace foregather;
using namespace foregather::test;

namespace {

// One row of each table, with no field at its default; one action of each kind.
Graph one_of_each() {
  GraphBuilder b;
  Graph& graph = b.graph();
  graph.world_size = 8;
  graph.parameters = 64;
  graph.tokens_per_rank_step = 32;
  graph.model_flops_per_rank_step = 6 * 64 * 32;
  const std::vector<std::uint32_t> even{0, 1, 2, 6};
  const GroupId group = b.group("shard", even, 3, 2);
  const CommunicatorId comm = b.communicator("fsdp \"wide\"", group);
  const ScopeId scope = b.scope("layers.0");
  Unit fields;
  fields.scope = scope;
  fields.group = group;
  fields.parameters = 63;
  fields.padded_elements = 64;
  fields.stored = DType::bf16;
  fields.gathered = DType::f16;
  fields.reduced = DType::f64;
  fields.reshard = Reshard::never;
  const UnitId unit = b.unit(fields);
  Cost cost;
  cost.kind = OpKind::all_gather;
  cost.dtype = DType::f8e4m3;
  cost.is_fixed = true;
  cost.fixed_time = 1500;
  cost.launch_lead = 11;
  cost.lead = 9;
  cost.lateness = 10;
  cost.usual_time = 1400;
  cost.kernels = 300;
  cost.host_ops = 24;
  cost.flops = 1;
  cost.bytes_read = 2;
  cost.bytes_written = 3;
  cost.m = 4;
  cost.n = 5;
  cost.k = 6;
  cost.batch = 7;
  cost.message_bytes = 8;
  cost.group = group;
  const CostId gather = b.cost(cost);
  const CostId nothing = b.cost({});

  const ProgramId program = b.begin_program("rank\t0\x01");
  const StreamId compute = b.stream("compute");
  const StreamId nccl = b.stream("nccl", -5);
  b.thread("main");
  b.thread("autograd");
  Storage bytes;
  bytes.bytes = 4096;
  bytes.name = graph.strings.intern("weight");
  bytes.scope = scope;
  bytes.unit = unit;
  bytes.cause = Cause::parameter_shard;
  bytes.on_host = true;
  const StorageId storage = b.storage(bytes);
  const std::vector<std::int64_t> shape{16, 8};
  const TensorId tensor = b.tensor(storage, DType::bf16, shape, 128);
  const TensorId scalar = b.tensor(storage, DType::f32, {});
  const EventId event = b.event();
  OpSpec spec;
  spec.stream = compute;
  spec.cost = nothing;
  const OpId plain = op(b, spec, {});
  spec.role = Role::gather;
  spec.phase = Phase::backward;
  spec.micro_batch = 2;
  spec.scope = scope;
  spec.unit = unit;
  spec.stream = nccl;
  spec.communicator = comm;
  spec.cost = gather;
  op(b, spec, {});
  const OpId full = op(b, spec,
                       {{tensor, Access::read, 0, 256},
                        {scalar, Access::accumulate, 0, 4},
                        {tensor, Access::write, 8, 16}},
                       {plain}, {plain, plain});
  b.select(0, Section::init);
  b.alloc(storage, compute);
  b.select(0, Section::body);
  b.launch(full);
  b.record_stream(storage, nccl);
  b.record(event, nccl);
  b.wait(compute, event);
  b.host_wait(event);
  b.host_wait_stream(nccl);
  b.host_wait_device();
  b.host_delay(1000);
  b.empty_cache();
  b.mark(3, Phase::recompute);
  b.free(storage);
  b.select(1, Section::first);
  b.release(tensor);
  b.select(1, Section::body);
  b.host_wait_action(0, 4);
  b.end_program();
  RankClass ranks;
  ranks.name = graph.strings.intern("slow");
  ranks.program = program;
  ranks.hardware = 2;
  ranks.compute_scale_ppm = 1'100'000;
  ranks.start_delay = 77;
  b.rank_class(ranks, std::vector<std::uint32_t>{3});
  return b.finish();
}

constexpr std::string_view kOneOfEach = R"(foregather-schedule 1
job world=8 parameters=64 tokens=32 flops=12288
n0 "shard"
n1 "fsdp \"wide\""
n2 "layers.0"
n3 "rank\t0\x01"
n4 "compute"
n5 "nccl"
n6 "main"
n7 "autograd"
n8 "weight"
n9 "slow"
s0 "layers.0"
g0 "shard" ranks=0-2,6 instances=2 nodes=3
c0 "fsdp \"wide\"" g0
u0 s0 g0 parameters=63 padded=64 stored=bf16 gathered=f16 reduced=f64 reshard=never
k0 all_gather f8e4m3 flops=1 read=2 written=3 m=4 n=5 k=6 batch=7 message=8 g0 fixed=1500 launch_lead=11 lead=9 late=10 kernels=300 host_ops=24 usual=1400
k1 other f32
b0 4096 "weight" s0 u0 parameter_shard host
t0 b0 bf16[16,8] +128
t1 b0 f32[]
o0 other compute other q0 k1
o1 all_gather gather backward micro_batch=2 s0 u0 q1 c0 k0
o2 all_gather gather backward micro_batch=2 ordinal=1 s0 u0 q1 c0 sequence=1 k0 read=t0 accumulate=t1 write=t0+8:16 deps=o0 origins=o0,o0
p0 "rank\t0\x01" ops=o0+3 storages=b0+1 events=e0+1
  q0 "compute"
  q1 "nccl" priority=-5
  h0 "main"
    section init
      alloc b0 q0
    section body
      launch o2
      record_stream b0 q1
      record e0 q1
      wait q0 e0
      host_wait_event e0
      host_wait_stream q1
      host_wait_device
      host_delay 1000
      empty_cache
      mark 3 recompute
      free b0
  h1 "autograd"
    section first
      release t0
    section body
      host_wait_action h0 4
r0 "slow" p0 ranks=3 hardware=2 compute_scale_ppm=1100000 delay=77
end
)";

std::string error_of(std::string_view text) {
  const Result<Graph> graph = read_dump(text, "x.fg");
  return graph ? "none" : graph.error().text();
}

// The dump of one_of_each() with one piece replaced.
std::string broken(std::string_view from, std::string_view to) {
  std::string text(kOneOfEach);
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  return text.replace(at, from.size(), to);
}

}  // namespace

TEST_CASE("a dump shows every field of every row") { CHECK(dump(one_of_each()) == kOneOfEach); }

TEST_CASE("a dump is read back") {
  const Result<Graph> graph = read_dump(kOneOfEach, "x.fg");
  REQUIRE(graph);
  CHECK(dump(*graph) == kOneOfEach);
  const Graph expected = one_of_each();
  CHECK(graph->ops == expected.ops);
  CHECK(graph->costs == expected.costs);
  CHECK(graph->accesses == expected.accesses);
  CHECK(graph->programs == expected.programs);
  CHECK(graph->classes == expected.classes);
  CHECK(graph->units == expected.units);
}

TEST_CASE("an empty graph round-trips") {
  const std::string text = dump(Graph());
  CHECK(text == "foregather-schedule 1\njob world=1\nend\n");
  REQUIRE(read_dump(text, "x.fg"));
  CHECK(dump(*read_dump(text, "x.fg")) == text);
}

TEST_CASE("what people write is read too") {
  const Result<Graph> graph = read_dump(
      "foregather-schedule 1\r\n"
      "# a comment\r\n"
      "\r\n"
      "job   world=2\r\n"
      "s0 \"a\"   \r\n"
      "  s1 \"a.b\"\n"
      "end\n\n# after the end\n",
      "x.fg");
  REQUIRE(graph);
  CHECK(graph->scope_name(ScopeId(1)) == "a.b");
  CHECK(graph->world_size == 2);
}

TEST_CASE("names need no row of their own") {
  const Result<Graph> graph =
      read_dump("foregather-schedule 1\njob world=1\ns0 \"a\"\nend\n", "x.fg");
  REQUIRE(graph);
  CHECK(graph->strings.size() == 1);
}

TEST_CASE("mistakes are told with their place") {
  CHECK(error_of("") ==
        "x.fg:1:1: is not a schedule dump, expected a first line 'foregather-schedule 1'");
  CHECK(error_of("foregather-schedule 2\n") ==
        "x.fg:1:1: is not a schedule dump, expected a first line 'foregather-schedule 1'");
  CHECK(error_of("foregather-schedule 1\n") == "x.fg:1:1: expected 'job world=…'");
  CHECK(error_of(broken("world=8", "world=0")) ==
        "x.fg:2:11: 0 is out of range, expected a number from 1 to 1048576");
  CHECK(error_of(broken("world=8", "wrold=8")) ==
        "x.fg:2:5: unknown key 'wrold', did you mean 'world'?");
  CHECK(error_of(broken("world=8", "world")) == "x.fg:2:10: expected '='");
  CHECK(error_of(broken("world=8", "world=8 world=8")) ==
        "x.fg:2:13: world is given twice, expected once");
  CHECK(error_of(broken("n4", "n5")) == "x.fg:7:1: expected n4, the next row");
  CHECK(error_of(broken("n4 \"compute\"", "n4 \"nccl\"")) ==
        "x.fg:8:4: this text is a row already, expected a new one");
  CHECK(error_of(broken("n4 \"compute\"", "n4 \"compute")) ==
        "x.fg:7:4: a text without its closing quote");
  CHECK(error_of(broken("\\x01", "\\q")) ==
        "x.fg:6:4: unknown escape in a text, expected \\\", \\\\, \\n, \\t or \\xHH");
  CHECK(error_of(broken("k1 other", "k1 gem")) ==
        "x.fg:18:4: 'gem' is not a kind of op, did you mean 'gemm'?");
  CHECK(error_of(broken("bf16[16,8]", "bf16[16,x]")) ==
        "x.fg:20:15: expected a number from 0 to 4503599627370496");
  CHECK(error_of(broken("bf16[16,8]", "bf16[16,8")) == "x.fg:20:16: expected ']'");
  CHECK(error_of(broken("bf16[16,8]", "bf16[16,8]+128")) ==
        "x.fg:20:17: expected a space or the end of the line");
  CHECK(error_of(broken("flops=12288", "flops=99999999999999999999")) ==
        "x.fg:2:43: 99999999999999999999 is out of range, expected a number from 0 to "
        "2305843009213693952");
  CHECK(error_of(broken("launch o2", "lunch o2")) ==
        "x.fg:32:7: 'lunch' is neither a row nor an action, did you mean 'launch'?");
  CHECK(error_of(broken("launch o2", "launch")) == "x.fg:32:13: expected op, as o0 to o2147483647");
  CHECK(error_of(broken("free b0", "free b0 q0")) ==
        "x.fg:42:15: 'q0' is too much, expected the end of the line");
  CHECK(error_of(broken("    section init\n", "")) == "x.fg:29:7: an action outside a section");
  const std::string head = "foregather-schedule 1\njob world=1\n";
  CHECK(error_of(head + "section init\nend\n") ==
        "x.fg:3:9: a section without a thread, expected h0 first");
  CHECK(error_of(head + "p0\nsection init\nend\n") ==
        "x.fg:4:9: a section without a thread, expected h0 first");
  std::string streams = head + "p0\n", threads = streams;
  for (int i = 0; i <= 256; ++i) {
    streams += fmt::format("q{} \"s\"\n", i);
    threads += fmt::format("h{} \"t\"\n", i);
  }
  CHECK(error_of(streams + "end\n").ends_with(": more than 256 streams in a program"));
  CHECK(error_of(threads + "end\n").ends_with(": more than 256 threads in a program"));
  CHECK(error_of(broken("section init", "section body")) ==
        "x.fg:31:13: section body is given twice");
  CHECK(error_of(broken("end\n", "")) ==
        "x.fg:48:59: the dump ends here, expected more rows and 'end'");
  CHECK(error_of(broken("end\n", "end\nend\n")) == "x.fg:50:1: text after 'end', expected nothing");
}

TEST_CASE("bad references are told with their place") {
  CHECK(error_of(broken("launch o2", "launch o3")) ==
        "x.fg:32:7: p0 h0 body action 0: op o3 is not one of its program's op (o0+3)");
  CHECK(error_of(broken("c0 \"fsdp \\\"wide\\\"\" g0", "c0 \"fsdp \\\"wide\\\"\" g1")) ==
        "x.fg:15:1: c0: group g1 does not exist, expected one of 1 rows");
  CHECK(error_of(broken("host_wait_action h0 4", "host_wait_action h0 11")) ==
        "x.fg:47:7: p0 h1 body action 0: thread h0 has no action 11 in body, expected less than "
        "11");
  CHECK(error_of(broken("read=t0", "read=t7")) == "x.fg:24:81: tensor t7 is not defined above");
  CHECK(error_of(broken("write=t0+8:16", "write=t0+250:16")) ==
        "x.fg:24:1: o2: touches 16 bytes at 250 of tensor t0, which has 256");
  CHECK(error_of(broken("+128", "+4000")) ==
        "x.fg:20:1: t0: takes 256 bytes at 4000 of storage b0, which has 4096");
  CHECK(error_of(broken("ranks=3", "ranks=8")) ==
        "x.fg:48:1: r0: rank 8 is out of range, expected 0 to 7");
  CHECK(error_of(broken("priority=-5", "priority=-5\n  q2 \"c\"\np1 ops=o1+1")) ==
        "x.fg:29:1: p1: shares rows with p0");
}

TEST_CASE("few bytes cannot ask for much memory") {
  const std::string head = "foregather-schedule 1\njob world=1048576\n";
  std::string groups = head;
  for (int i = 0; i < 64; ++i) groups += "g" + std::to_string(i) + " ranks=0-1048575\n";
  CHECK(error_of(groups + "end\n").find("more than 16777216 ranks are listed in all") !=
        std::string::npos);
  CHECK(error_of(head + "p0 events=e0+2147483648\nend\n").find("out of range") ==
        std::string::npos);
  CHECK(error_of(head + "p0 events=e0+2000000000\nend\n") ==
        "x.fg:3:1: p0: more events than 1048576, for 0 actions");
  CHECK(error_of(head + "b99999999999 5\nend\n").find("x.fg:3:1: ") == 0);
  CHECK(error_of(head + "t0 b0 f32[4503599627370496,4503599627370496]\nend\n").find("x.fg:3:1") ==
        0);
  CHECK(error_of(head + "b0 9\nt0 b0 f64[4503599627370496,4503599627370496]\n"
                        "o0 copy copy other read=t0\nend\n") != "none");
}

TEST_CASE("messages hold no control bytes") {
  const std::string error = error_of("foregather-schedule 1\njob world=1\n\x1b[2J\x07\nend\n");
  CHECK(error.find('\x1b') == std::string::npos);
  CHECK(error.find('\x07') == std::string::npos);
  CHECK(error.find("x.fg:3:1: ") == 0);
}
