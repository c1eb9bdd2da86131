#include "tasks/validation/report.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "core/base/text.h"
#include "tasks/validation/bars.h"
#include "tasks/validation/by_mechanism.h"
#include "tasks/validation/markdown.h"
#include "tasks/validation/mechanism.h"
#include "tasks/validation/nccl_plot.h"
#include "tasks/validation/pairs_report.h"
#include "tasks/validation/scaling_report.h"
#include "tasks/validation/scatter.h"

namespace foregather::tasks {
namespace {

constexpr std::size_t kWorstRows = 10;

std::vector<std::string> figure_cells(const std::string& name, const GroupFigures& f) {
  return {name,
          fmt::format("{}/{}", f.predicted, f.n),
          percent(f.time.median),
          percent(f.time.p90),
          percent(f.time.worst),
          percent(f.peak.median),
          percent(f.peak.p90),
          percent(f.peak.worst)};
}

const std::vector<std::string> kHeads{"rows",  "predicted",   "time median", "p90",
                                      "worst", "peak median", "p90",         "worst"};

std::vector<std::vector<std::string>> tier_rows(const Validation& validation) {
  std::vector<std::vector<std::string>> rows;
  for (const char* tier : {"A", "B", "C"})
    rows.push_back(figure_cells(fmt::format("tier {}", tier),
                                figures_of(of_tier(validation.rows, tier), true)));
  return rows;
}

double size_of_error(const RowResult& row) {
  return std::max(std::abs(row.time_error().value_or(0)), std::abs(row.peak_error().value_or(0)));
}

std::vector<const RowResult*> worst_rows(const Validation& validation) {
  std::vector<const RowResult*> rows = of_tier(validation.rows, "A");
  std::erase_if(rows, [](const RowResult* row) { return size_of_error(*row) == 0; });
  std::stable_sort(rows.begin(), rows.end(), [](const RowResult* a, const RowResult* b) {
    return size_of_error(*a) > size_of_error(*b);
  });
  rows.resize(std::min(rows.size(), kWorstRows));
  return rows;
}

std::string worst_table(const Validation& validation) {
  std::vector<std::vector<std::string>> rows;
  for (const RowResult* row : worst_rows(validation))
    rows.push_back({"`" + row->row.id + "`", signed_percent(row->time_error()),
                    signed_percent(row->peak_error()), mechanism_of(*row)});
  return markdown_table({"row", "time", "peak", "behind it"}, rows, "lrrl");
}

std::string collectives_text(const Validation& validation) {
  constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
  const auto& rows = validation.collectives;
  return fmt::format(
      "\n## Collectives\n\nMedian error of {} measurements of published nccl-tests tables: below "
      "64 KiB {}, to 1 MiB {}, to 64 MiB {}, larger {}; below 1 MiB {}, from there on {}.\n",
      std::ranges::count_if(rows, [](const NcclRow& row) { return row.error().has_value(); }),
      percent(nccl_median(rows, 0, 64 * KiB)), percent(nccl_median(rows, 64 * KiB, 1 * MiB)),
      percent(nccl_median(rows, 1 * MiB, 64 * MiB)), percent(nccl_median(rows, 64 * MiB, kAny)),
      percent(nccl_median(rows, 0, 1 * MiB)), percent(nccl_median(rows, 1 * MiB, kAny)));
}

/// The median error of every table by size.
std::string tables_text(const Validation& validation) {
  constexpr Bytes kAny = std::numeric_limits<Bytes>::max();
  std::map<std::string, std::vector<NcclRow>> tables;
  for (const NcclRow& row : validation.collectives)
    if (row.error()) tables[row.table].push_back(row);
  std::vector<std::vector<std::string>> lines;
  for (const auto& [name, rows] : tables)
    lines.push_back({name, percent(nccl_median(rows, 0, 64 * KiB)),
                     percent(nccl_median(rows, 64 * KiB, 1 * MiB)),
                     percent(nccl_median(rows, 1 * MiB, 64 * MiB)),
                     percent(nccl_median(rows, 64 * MiB, kAny)),
                     percent(nccl_median(rows, 1 * MiB, kAny))});
  return "\n" + markdown_table(
                    {"table", "below 64 KiB", "to 1 MiB", "to 64 MiB", "larger", "from 1 MiB on"},
                    lines, "lrrrrr");
}

std::string intervals_text(const Validation& validation) {
  const auto line = [&](const char* what, std::optional<bool> (RowResult::*inside)() const) {
    const Coverage all = coverage_of(validation.rows, inside);
    return fmt::format("- {}: {} of {} inside ({})\n", what, all.inside, all.n,
                       percent(all.share()));
  };
  return "\n## Intervals\n\nNine of ten published values are to lie inside the interval that "
         "`simulate` prints (its factors: `[interval]` of\nthe hardware files).\n\n" +
         line("step times", &RowResult::time_inside) + line("peaks", &RowResult::peak_inside);
}

std::string skipped_text(const Validation& validation) {
  std::string text = "\n## Not predicted\n\n";
  for (const auto& [reason, count] : validation.skipped())
    text += fmt::format("- {} row{}: {}\n", count, count == 1 ? "" : "s", reason);
  if (validation.skipped().empty()) text += "Nothing.\n";
  return text;
}

constexpr std::string_view kIntroduction =
    "# Validation\n\n"
    "Written by `./dev validate`; do not edit. Predictions against published training results, "
    "which are not part of\nthe repository. Errors are |predicted − published| / published; the "
    "peak is compared in the metric of the\nrow's source (reserved or allocated). In the figures "
    "of a tier each group weighs the same (a group is one source\nand setup), in those of a group "
    "each row. Tier A: full configurations of FSDP or ZeRO; B: something is missing\nor unusual; "
    "C: combined with other parallelism. Two published measurements of one configuration differ by "
    "8.6 %.\n\n";

std::string gpu_check_text(const Validation& validation) {
  const std::string head = "\n## Schedules run on GPUs, against their prediction\n\n";
  if (!validation.gpu_check.empty())
    return head + "As `./dev gpu-check` found it; `foregather run --backend cuda` ran them.\n\n" +
           validation.gpu_check;
  return head +
         "**None yet**: no schedule has been run on a GPU by `foregather run --backend cuda` and "
         "held against its prediction, and\nno overhead of `foregather record` has been measured "
         "on one. `./dev gpu-check` writes the table (`measured.md`); as\n"
         "`traces/measured/gpu_check.md` it is shown here.\n";
}

constexpr std::string_view kMapping =
    "\n## How a row becomes a workload\n\n"
    "By its key columns and its source (`tasks/validation/row_workload.cpp`, `row_machine.cpp`, "
    "`row_model.cpp`), never by its id but for the word `chunk`;\n`./dev validate --workloads DIR` "
    "keeps the workload "
    "files, "
    "so that each can be looked at with `foregather simulate`.\n\n"
    "- Units are blocks, the rest is the root's unit. torchtitan leaves the last block gathered "
    "after forward, which\n  saves one all-gather of dozens; that is not expressed.\n"
    "- What the script behind a source does beyond its columns is read in the script "
    "(`row_script.cpp`), by the kind of the source and\n  by a version that the row names (a pull "
    "request, a PyTorch): which outputs it holds, in what type, whether its loss is compiled.\n  "
    "Chunked cross-entropy is read in the words of the row.\n"
    "- Checkpointing that is not stated, or that the table's author assumed: none, or full where "
    "the step does not fit without.\n"
    "- A link or fabric that is not stated is that of the hardware file; a GPU that is not stated "
    "is an H100 SXM; the speed of a\n  fabric that is not stated is the median of what other "
    "sources state (A100 100, H100 250 Gb/s "
    "a GPU); an H100\n  SXM of 95 or 96 GB is the 500 W board that torchtitan describes.\n"
    "- `flash` of llm-foundry's MPT is FlashAttention in Triton at 0.6 of FlashAttention-2's speed "
    "(fitted), FlexAttention runs at 0.86\n  (its announcement); its loss is a fused kernel "
    "without fp32 "
    "logits. YaFSDP is FSDP1 with its rate limiter: flat "
    "parameters, two buffers.\n- YaFSDP reduces gradients in fp32 unless told otherwise, from its "
    "first release on and in its patch of accelerate\n  (`bit16_reduce_scatter` of `ya_fsdp.py`); "
    "the table's column says bf16. The FSDP runs that it compares itself with are\n  assumed to do "
    "the same.\n- DLRover gathers in bf16: its attention hands queries, keys and values to "
    "flash-attn as they come, which refuses fp32; the\n  table's column says autocast over fp32. "
    "Real models under its loop, run so, have its peaks to 1 MiB "
    "(`tests/oracles/data/held_outputs.json`,\n  with the buffers of FSDP and cuBLAS added).\n"
    "- Sources of Lightning (LitGPT, Thunder) run LitGPT's Llama: query, key and value from one "
    "product, whose output the saved\n  value keeps.\n"
    "- LitGPT's Thunder script jits a function that calls the model, in which Thunder's FSDP "
    "passes do not find the\n  module: what is gathered at the start of the forward stays for "
    "the backward. Its ZeRO-3 is read as ZeRO-2, which the\n  table's column contradicts "
    "(`tests/oracles/data/thunder_loss.json`).\n"
    "- Parameters gathered in fp32 with bf16 compute are autocast. Thunder is\n  compiled whatever "
    "`compile_key` says; which bucketing it used is "
    "not told by the columns.\n"
    "- Where nothing says otherwise, results are older than PyTorch 2.9: RMSNorm is a chain of "
    "kernels unless it is compiled,\n  and keys and values are copied to all heads. "
    "torchtitan's are not since January 2026.\n"
    "- Where the prediction does not fit the memory, step time and peak are predicted with a "
    "device "
    "large enough, and\n  `fits` says no.\n";

std::string pictures_text(const Validation& validation, const std::string& folder,
                          Picture::About about) {
  std::string text;
  for (const Picture& picture : pictures_of(validation))
    if (picture.about == about)
      text += fmt::format("\n![{}]({}/{})\n", picture.caption, folder, picture.file);
  return text;
}

std::string wrong_fits_text(const Validation& validation) {
  std::string text =
      fmt::format("\nWrong answers to \"does it fit?\": {}.\n", validation.wrong_fits());
  for (const RowResult& row : validation.rows) {
    if (!row.is_wrong_fit()) continue;
    const RowPrediction& p = row.prediction;
    text += fmt::format(
        "- `{}` {}; predicted to take {} of {}{}\n", row.row.id,
        p.fits ? "ran out of memory" : "ran", format_bytes(p.reserved + p.outside),
        format_bytes(p.capacity),
        p.is_close_call ? ", a close call: the interval of the peak reaches across" : "");
  }
  return text;
}

}  // namespace

std::vector<Picture> pictures_of(const Validation& validation) {
  std::vector<Picture> pictures{
      {"step_time.svg", "Predicted against published step times, a point a row",
       step_time_svg(validation.rows)},
      {"peak.svg", "Predicted against published peaks, a point a row", peak_svg(validation.rows)},
      {"collectives.svg", "Predicted and published times of collectives, a panel a table",
       nccl_plot(validation.collectives), Picture::About::collectives}};
  std::erase_if(pictures, [](const Picture& picture) { return picture.svg.empty(); });
  return pictures;
}

std::string report_markdown(const Validation& validation, const std::string& folder) {
  std::string text{kIntroduction};
  text += "| bar | holds |\n|---|---|\n";
  for (const Bar& bar : bars(validation))
    text += fmt::format("| {} | {} |\n", bar.text,
                        !bar.holds   ? "nothing to compare"
                        : *bar.holds ? "yes"
                                     : "**no**");
  text += "\n## By tier\n\n" + markdown_table(kHeads, tier_rows(validation));
  text += wrong_fits_text(validation) + pictures_text(validation, folder, Picture::About::steps);
  text += "\n## By group\n\n";
  std::vector<std::vector<std::string>> groups;
  for (const auto& [group, rows] : by_group(validation.rows))
    groups.push_back(figure_cells(group, figures_of(rows, false)));
  text += markdown_table(kHeads, groups) + mechanisms_markdown(validation.rows);
  text += "\n## The worst ten rows of tier A\n\n" + worst_table(validation);
  text += intervals_text(validation);
  text += skipped_text(validation);
  if (!validation.collectives.empty())
    text += collectives_text(validation) + tables_text(validation) +
            pictures_text(validation, folder, Picture::About::collectives);
  text += pairs_markdown(validation.rows) + scaling_markdown(validation.rows);
  if (!validation.gpu_steps.empty()) text += gpu_steps_markdown(validation.gpu_steps);
  return text + gpu_check_text(validation) + std::string(kMapping);
}

std::string report_text(const Validation& validation) {
  if (validation.rows.empty() && validation.collectives.empty())
    return gpu_steps_text(validation.gpu_steps);
  std::string text;
  if (!validation.rows.empty()) {
    TextTable table;
    table.row(kHeads);
    for (const auto& row : tier_rows(validation)) table.row(row);
    for (const auto& [group, rows] : by_group(validation.rows))
      table.row(figure_cells("  " + group, figures_of(rows, false)));
    text = fmt::format("{}wrong fit: {}\n", table.text(), validation.wrong_fits());
  }
  text += pairs_text(validation.rows) + scaling_text(validation.rows);
  if (!validation.collectives.empty()) text += collectives_text(validation);
  text += skipped_text(validation);
  if (!validation.gpu_steps.empty()) text += gpu_steps_text(validation.gpu_steps);
  text += "\n";
  for (const Bar& bar : bars(validation))
    text += fmt::format("{} {}\n", !bar.holds ? "–" : *bar.holds ? "✓" : "✗", bar.text);
  return text;
}

}  // namespace foregather::tasks
