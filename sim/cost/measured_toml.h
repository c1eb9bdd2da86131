// What a hardware file says of measured work.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/run/work_sample.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// "measured" and "residual", the sections that read_measured() reads.
bool is_measured_section(std::string_view section);

/// Appends the rows of [[measured]] and replaces residuals by those of [[residual]], kind by kind.
/// Errors at PLACE:LINE:COL: unknown keys, wrong types, kinds or types of number that are none of
/// ours, no source, numbers out of range.
Status read_measured(std::string_view text, const std::string& place,
                     std::vector<run::WorkSample>& measured, std::vector<Residual>& residuals);

/// The text of both sections. `from` is the recording.
std::string measured_text(std::span<const run::WorkSample> measured,
                          std::span<const Residual> residuals, const std::string& from);

}  // namespace foregather::sim
