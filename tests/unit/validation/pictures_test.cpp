// The pictures of the report.
#include <catch2/catch.hpp>

#include <algorithm>
#include <string>
#include <vector>

#include "core/base/units.h"
#include "tasks/svg.h"
#include "tasks/validation/report.h"
#include "tasks/validation/scatter.h"

using namespace foregather;
using namespace foregather::tasks;
using Catch::Matchers::Contains;
using Catch::Matchers::EndsWith;

namespace {

RowResult result(const std::string& id, const std::string& gpu, double published,
                 double predicted) {
  RowResult result;
  result.row.id = id;
  result.row.gpu = gpu;
  result.row.step_time_s = published;
  result.prediction.step = static_cast<Ns>(predicted * 1e9);
  return result;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t n = 0;
  for (auto at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("logarithmic scales place equal ratios equally far") {
  const LogScale scale{1, 100, 50, 250};
  CHECK(scale.at(1) == Approx(50));
  CHECK(scale.at(10) == Approx(150));
  CHECK(scale.at(100) == Approx(250));
  CHECK(scale.ticks() == std::vector<double>{1, 10, 100});
  CHECK(LogScale{2, 60, 0, 1}.ticks() == std::vector<double>{2, 5, 10, 20, 50});
  CHECK(LogScale{15, 41, 0, 1}.ticks() == std::vector<double>{20, 30, 40});
}

TEST_CASE("scales hold all values, with room") {
  const LogScale scale = scale_over({4, 0, -1, 1}, 0, 100);
  CHECK(scale.least < 1);
  CHECK(scale.most > 4);
  CHECK(scale.at(1) > 0);
  CHECK(scale.at(4) < 100);
  CHECK(scale_over({5}, 0, 100).at(5) == Approx(50));
  CHECK(scale_over({}, 0, 100).ticks() == std::vector<double>{1, 2, 5, 10});
}

TEST_CASE("ticks are short") {
  CHECK(tick_text(0.02) == "0.02");
  CHECK(tick_text(500) == "500");
  CHECK(tick_text(20'000) == "20k");
  CHECK(tick_text(1e9) == "1G");
}

TEST_CASE("a scatter has a point a row and a colour a family of GPUs") {
  const std::vector<RowResult> rows{result("one", "H100-SXM-80GB", 1, 1),
                                    result("two", "H100-PCIe", 2, 2.1),
                                    result("three", "A100-SXM4-40GB", 10, 5)};
  const std::string svg = step_time_svg(rows);
  CHECK_THAT(svg, EndsWith("</svg>\n"));
  CHECK(count(svg, "class=\"dot s1\"") == 2 + 1);  // and one in the legend
  CHECK(count(svg, "class=\"dot s0\"") == 1 + 1);
  CHECK_THAT(svg, Contains(">H100</text>"));
  CHECK_THAT(svg, Contains("<title>three: 10 s published, 5 s predicted (-50.0 %)</title>"));
  CHECK_THAT(svg, Contains("@media (prefers-color-scheme: dark)"));
  CHECK(svg == step_time_svg(rows));
  CHECK(peak_svg(rows).empty());
}

TEST_CASE("texts of a table cannot break a picture") {
  const std::string svg = step_time_svg({result("</svg><script>\x01\xff&\"", "<b>-1", 1, 1)});
  CHECK(count(svg, "<script>") == 0);
  CHECK(count(svg, "</svg>") == 1);
  CHECK(count(svg, "<b>") == 0);
  CHECK(std::none_of(svg.begin(), svg.end(), [](char c) {
    return (static_cast<unsigned char>(c) < 0x20 && c != '\n') || c == '\xff';
  }));
}

TEST_CASE("the report shows the pictures that there are") {
  Validation validation;
  CHECK(pictures_of(validation).empty());
  validation.rows.push_back(result("one", "H100", 1, 1));
  REQUIRE(pictures_of(validation).size() == 1);
  CHECK(pictures_of(validation).front().file == "step_time.svg");
  CHECK_THAT(report_markdown(validation, "folder"), Contains("](folder/step_time.svg)"));
}

TEST_CASE("the report says whether schedules were run on GPUs") {
  Validation validation;
  CHECK_THAT(report_markdown(validation, "folder"), Contains("**None yet**"));
  validation.gpu_check = "| schedule |\n|---|\n| tiny |\n";
  CHECK_THAT(report_markdown(validation, "folder"),
             Contains("| tiny |\n") && !Contains("**None yet**"));
}
