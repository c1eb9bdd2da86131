// Printed Thunder traces: the grammar, part by part, and the counts of the shared files.
#include <fstream>
#include <sstream>
#include <string>
#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

#include "tests/support/repetitions.h"
#include "tests/support/skip.h"
#include "traces/thunder_facts.h"

using namespace foregather;
using namespace foregather::traces;
using namespace std::string_literals;

namespace {

constexpr const char* kHead = "@torch.no_grad()\n@no_autocast\ndef computation(a, b):\n";

/// A file that keeps its text.
struct Parsed {
  std::string text;
  ThunderFile file;

  explicit Parsed(std::string content) : text(std::move(content)) {
    auto result = read_thunder(text, "t.txt");
    REQUIRE(result);
    file = std::move(*result);
  }

  const ThunderStatement& row(std::size_t i) const { return file.statements.at(i); }
  std::string targets(std::size_t i) const {
    std::string names;
    for (const ThunderName name : file.targets_of(row(i))) {
      names += names.empty() ? "" : " ";
      names += file.text(name);
    }
    return names;
  }
};

Parsed body(const std::string& lines) { return Parsed(kHead + lines); }

using StatementKind = ThunderStatement::Kind;

}  // namespace

TEST_CASE("Thunder: each form of statement is told apart") {
  const Parsed t = body(
      "  t1 = torch.add(a, b)  # t1: \"cuda:0 f32[2]\"\n"
      "  [t2, t3] = nvFusion0(t1)\n"
      "  ((t4, _), t5) = f(t1)\n"
      "  x: \"cuda:0 f32[3]\" = args[0]\n"
      "  C0, C1, = saved\n"
      "  t6 = kwargs['x']\n"
      "  clear_mutable_collection(C0)\n"
      "  del t1, t2\n"
      "  del [t3, t4]\n"
      "  x.grad = t5\n"
      "  d['k'] = t5\n"
      "  print(t5)\n"
      "  return {'output': t5}, ((x,), ())\n");
  REQUIRE(t.file.unparsed_lines == 0);
  REQUIRE(t.file.statements.size() == 13);
  const std::array kinds{StatementKind::assign,       StatementKind::assign, StatementKind::assign,
                         StatementKind::typed_assign, StatementKind::unpack, StatementKind::move,
                         StatementKind::call,         StatementKind::del,    StatementKind::del,
                         StatementKind::set,          StatementKind::set,    StatementKind::call,
                         StatementKind::give_back};
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    CAPTURE(i);
    CHECK(t.row(i).kind == kinds[i]);
  }
  CHECK(t.targets(1) == "t2 t3");
  CHECK(t.targets(2) == "t4 _ t5");
  CHECK(t.targets(4) == "C0 C1");
  CHECK(t.targets(7) == "t1 t2");
  CHECK(t.targets(8) == "t3 t4");
  CHECK(t.file.functions.front().has_return);
}

TEST_CASE("Thunder: values of every spelling are read") {
  const Parsed t = body(
      "  t1 = f(1, -2, 1e-05, .5, float('inf'), -float('inf'), complex(1.0, 2.0), True, None, "
      "...)\n"
      "  t2 = f('a, b) # = \"', \"it's\", (a,), [], {'k': (a, [b])}, slice(0,4,None), torch.Size)\n"
      "  t3 = f((object of type Foo<int>), <class 'NoneType'>, pkg_Class(field=1,other=x.y))\n"
      "  t4 = prims.full((2, 3), 1, device=devices.Device(\"cuda:0\"), dtype=dtypes.float32_)\n"
      "  t5 = x.__iter__().__next__()\n"
      "  t6 = d['a'][0, 1:2](b).c\n"
      "  t7 = f(*a, **b)\n");
  CHECK(t.file.unparsed_lines == 0);
  REQUIRE(t.file.statements.size() == 7);
  const ThunderValue* call = t.file.call_of(t.row(0));
  std::vector<std::int64_t> integers;
  each_child(*call, [&](const ThunderValue& value) {
    if (value.kind == ThunderValue::Kind::integer) integers.push_back(value.integer);
  });
  CHECK(integers == std::vector<std::int64_t>{1, -2});
  std::string keywords;
  each_child(*t.file.call_of(t.row(3)),
             [&](const ThunderValue& value) { keywords += value.keyword; });
  CHECK(keywords == "devicedtype");
  CHECK(t.file.call_of(t.row(4))->text == "__next__");
}

TEST_CASE("Thunder: types of every device and dtype are read") {
  const auto bytes = [](const char* text) {
    const auto type = parse_thunder_type(text);
    return type ? bytes_of(*type) : std::nullopt;
  };
  CHECK(bytes("cuda:0 f32[4, 16]") == 256);
  CHECK(bytes("cuda:0 f32[]") == 4);
  CHECK(bytes("cpu b8[3]") == 3);
  CHECK(bytes("meta bf16[2, 0]") == 0);
  CHECK(bytes("FUTURE cuda:0 f32[32]") == 128);
  CHECK(bytes("FUTURE thunder.devices.Device(type='cuda', index=0) bf16[8]") == 16);
  CHECK(bytes("cuda:1 f8_e4m3fn[10]") == 10);
  CHECK(bytes("cuda:0 f4_e2m1fn_x2[10]") == 5);
  CHECK(bytes("cuda:0 f4[10]") == 5);
  CHECK(bytes("cuda:0 c128[2]") == 32);
  CHECK(bytes("cuda:0 f32[[IntegerProxy name=i42, value=22, static=True], 2]") == 176);
  CHECK(bytes("DTensor cuda:0 f32[16, 16] mesh=DeviceMesh('cuda', [0, 1]), placements=(S(0),)") ==
        1024);
  CHECK(parse_thunder_type("FUTURE cuda:0 f32[32]")->is_future);
  CHECK(parse_thunder_type("cpu f32[2]")->on_host);
  CHECK(parse_thunder_type("cuda:0 ui8[7]")->dtype.type == DType::u8);
  for (const char* none :
       {"Collection", "Any", "int 16", "", "cuda:0 f32[-1]", "cuda:0 f32[2", "cuda:0 f33[2]",
        "cuda:0 f32[2 3]", "<class 'NoneType'>", "cuda:0 f32[9999999999, 9999999999]",
        "cuda:0 f32[99999999999999999999]"}) {
    CAPTURE(none);
    CHECK_FALSE(parse_thunder_type(none));
  }
}

TEST_CASE("Thunder: sub-symbols belong to the line above, however deep") {
  const Parsed t = body(
      "  # a: \"cuda:0 f32[2]\"\n"
      "\n"
      "  # file.py:12: \ty = f(x) # what\n"
      "  [t2] = nvFusion0(a)\n"
      "    # t1 = prims.gt(a, 0.0)  # t1: \"cuda:0 b8[2]\"\n"
      "    # t2 = ltorch.where(t1, a, 0.0)  # t2: \"cuda:0 f32[2]\"\n"
      "      # t2 = prims.where(t1, a, 0.0)  # t2: \"cuda:0 f32[2]\"\n"
      "      #   # a header comment\n"
      "  return t2\n");
  REQUIRE(t.file.statements.size() == 5);
  CHECK(t.row(0).end == 4);
  CHECK(t.row(1).depth == 1);
  CHECK(t.row(2).end == 4);
  CHECK(t.row(3).depth == 2);
  CHECK(t.row(4).depth == 0);
  CHECK(t.file.sub_symbol_lines == 4);
  // A fusion's outputs have the types of the sub-symbols.
  CHECK(bytes_of(*t.file.type_of(t.row(0), t.file.targets_of(t.row(0))[0])) == 8);
}

TEST_CASE("Thunder: styles of four years and artefacts of printing are survived") {
  SECTION("lines joined by backslashes, Windows line ends, no line end at the end") {
    const Parsed t(
        "def backward_fn(saved, cotangents):\r\n  t0, \\\r\n  t1, \\\r\n  = saved\r\n"
        "  t2 = f(t0)  # t2: \"cpu f32[2]\"\r\n  return (t2,)");
    CHECK(t.file.unparsed_lines == 0);
    CHECK(t.row(0).kind == StatementKind::unpack);
    CHECK(t.targets(0) == "t0 t1");
    CHECK(t.file.statement_lines == 3);
  }
  SECTION("trivial unpacks of 2023") {
    const Parsed t(
        "def thunder_140(x):\n  # x: \"cpu f32[2, 2]\" =  x  (trivial unpack)\n"
        "  (t0, t1) = nvFusion0(x)\n  del [t0]\n  return t1");
    CHECK(t.file.unparsed_lines == 0);
    CHECK(thunder_facts(t.file).argument_bytes == 16);
  }
  SECTION("a printed list of traces") {
    const Parsed t(
        "[# Constructed by A (took 1 milliseconds)\nimport torch\n\ndef f(a):\n"
        "  return a, # Constructed by B\nimport torch\n@torch.no_grad()\ndef g(a):\n"
        "  t1 = f(a)\n  return t1]\n");
    REQUIRE(t.file.functions.size() == 2);
    CHECK(t.file.functions[0].provenance == "A (took 1 milliseconds)");
    CHECK(t.file.functions[1].name == "g");
    CHECK(t.file.functions[1].has_return);
    CHECK(t.file.unparsed_lines == 0);
    CHECK(t.file.functions[1].provenance == "B");
    // Traces without a provenance follow with their imports.
    const Parsed plain(
        "[import torch\ndef f(a):\n  return (a,), import torch\ndef g(a):\n"
        "  return {'b': a}, ((a,), ()), from torch import Tensor\n@no_autocast\n"
        "def h(a):\n  return a]\n");
    CHECK(plain.file.functions.size() == 3);
    CHECK(plain.file.unparsed_lines == 0);
    CHECK(plain.row(1).values.count == 7);
  }
  SECTION("a body in a docstring, or behind a comment sign") {
    const Parsed docstring(
        "      def f(a):\n        # a: \"cpu f32[2]\"\n        t1 = g(a)\n"
        "          # t1 = prims.h(a)\n        return t1\n");
    CHECK(docstring.file.statements.size() == 3);
    CHECK(docstring.row(1).depth == 1);
    const Parsed quoted(
        "# def f(a):\n#   # a: \"cpu f32[2]\"\n#   t1 = g(a)\n#     # t1 = h(a)\n#   return t1\n");
    CHECK(quoted.file.statements.size() == 3);
    CHECK(quoted.file.functions.front().has_return);
  }
  SECTION("elisions and cuts are counted and placed") {
    const Parsed t("def f(a):\n  t1 = g(a)\n  ...\n  t2 = torch.add(t1,\n");
    CHECK(t.file.unparsed_lines == 2);
    REQUIRE(t.file.problems.size() == 2);
    CHECK(t.file.problems[0].line == 3);
    CHECK(t.file.problems[1].line == 4);
    CHECK(t.file.problems[1].column == 21);
    CHECK_FALSE(t.file.functions.front().has_return);
  }
  SECTION("no function") {
    const Parsed t("# Constructed by X\n# No signature available\n");
    REQUIRE(t.file.functions.size() == 1);
    CHECK(t.file.functions.front().name.empty());
    const auto none = read_thunder("import torch\n", "t.txt");
    REQUIRE_FALSE(none);
    CHECK(none.error().text() ==
          "t.txt:1:1: no function, expected a printed Thunder trace with a line 'def NAME(…):'");
  }
  SECTION("every kind of parameter") {
    const Parsed t("def f(a, b=1.5, *args, c='x,y', d, **kwargs):\n  return a\n");
    CHECK(thunder_facts(t.file).arguments == 6);
    const Parsed bare("def f(a, *, b):\n  return a\n");
    CHECK(thunder_facts(bare.file).arguments == 2);
    const Parsed positional("def f(a, /, b):\n  return a\n");
    CHECK(thunder_facts(positional.file).arguments == 2);
  }
  SECTION("texts with escaped quotes, and objects that do not end") {
    const Parsed t = body("  t1 = f('it\\'s', \"a\\\"b\", a)\n  t2 = g(<object at 0x7f, a)\n");
    CHECK(t.file.unparsed_lines == 1);
    const ThunderValue& call = *t.file.call_of(t.row(0));
    std::vector<std::string> texts;
    each_child(call, [&](const ThunderValue& value) { texts.emplace_back(value.text); });
    CHECK(texts == std::vector<std::string>{"'it\\'s'", "\"a\\\"b\"", "a"});
    REQUIRE(t.file.problems.size() == 1);
    CHECK(t.file.problems[0].line == 5);
    CHECK(t.file.problems[0].what == "expected '>'");
  }
}

TEST_CASE("Thunder: nothing nests or repeats without bound") {
  const Parsed deep = body("  t1 = " + std::string(100000, '(') + "\n");
  CHECK(deep.file.unparsed_lines == 1);
  std::string chain = "  t1 = a";
  for (int i = 0; i < 100000; ++i) chain += "()";
  CHECK(body(chain + "\n").file.unparsed_lines == 1);
  CHECK(body("  t1 = f(99999999999999999999999)\n").file.unparsed_lines == 0);
}

TEST_CASE("Thunder: the estimator counts arguments twice, aliases once, repeats again") {
  const Parsed t = body(
      "  # a: \"cuda:0 f32[64]\"\n"
      "  # b: \"cuda:0 f32[64]\"\n"
      "  t1 = torch.add(a, b)  # t1: \"cuda:0 f32[64]\"\n"
      "  t2 = torch.reshape(t1, (8, 8))  # t2: \"cuda:0 f32[8, 8]\"\n"
      "  del t1, a\n"
      "  t3 = unknown(t2)\n"
      "  t4 = torch.permute(t3, (1, 0))  # t4: \"cuda:0 f32[8, 8]\"\n"
      "  del t2\n"
      "  return t4\n");
  const ThunderFacts facts = thunder_facts(t.file);
  CHECK(facts.argument_bytes == 512);
  CHECK(facts.unknown_types == 1);
  CHECK(facts.peak_bytes == 512 + 256 + 256);
  CHECK(facts.end_bytes == 512 + 256);
  CHECK(facts.deletes == 2);
}

TEST_CASE("Thunder: the shared traces have the counts of an independent reader") {
  const auto folder = test::shared_data("thunder");
  if (!folder) FOREGATHER_SKIP("the shared Thunder traces are absent");
  const auto slurp = [&](const std::string& name) {
    std::ifstream in(*folder / name, std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    return out.str();
  };
  const auto expected = nlohmann::json::parse(slurp("expected.json"));
  for (const auto& [name, row] : expected.items()) {
    CAPTURE(name);
    const std::string text = slurp(name);
    CHECK(is_thunder_trace(text));
    const auto file = read_thunder(text, name);
    REQUIRE(file);
    const ThunderFacts facts = thunder_facts(*file);
    CHECK(facts.function == row["fn"].get<std::string>());
    CHECK(facts.arguments == row["n_args"]);
    CHECK(facts.statements == row["n_stmts"]);
    CHECK(facts.sub_symbols == row["n_sub"]);
    CHECK(facts.deletes == row["n_del"]);
    CHECK(facts.fusions == row["fusions"]);
    CHECK(facts.argument_bytes == row["arg_bytes"]);
    CHECK(facts.peak_bytes == row["peak_bytes"]);
    CHECK(facts.end_bytes == row["end_bytes"]);
    CHECK(facts.unknown_types == row["unknown_types"]);
    CHECK(facts.has_return == row["has_return"].get<bool>());
    CHECK(facts.unparsed == row["unparsed"]);
    std::map<std::string, std::int64_t> collectives(facts.collectives.begin(),
                                                    facts.collectives.end());
    CHECK(collectives == row["collectives"].get<std::map<std::string, std::int64_t>>());
  }
}

TEST_CASE("Thunder: a trace cut at any byte is read without a crash") {
  const auto folder = test::shared_data("thunder");
  if (!folder) FOREGATHER_SKIP("the shared Thunder traces are absent");
  constexpr std::size_t kLeastStep = test::kSanitized ? 4 : 1;
  for (const auto& entry : std::filesystem::directory_iterator(*folder)) {
    if (entry.path().extension() != ".txt") continue;
    std::ifstream in(entry.path(), std::ios::binary);
    std::ostringstream out;
    out << in.rdbuf();
    const std::string text = out.str();
    const std::size_t step = text.size() < 4000 ? kLeastStep : text.size() * kLeastStep / 997;
    for (std::size_t size = 0; size < text.size(); size += step) {
      const std::string cut = text.substr(0, size);
      if (const auto file = read_thunder(cut, "cut")) (void)thunder_facts(*file);
    }
  }
}
