// How long what was recorded may take.
#pragma once

#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"

namespace foregather::run {

/// Of a recording, or of a step; `where` is for the message. Errors: more than 30 days, which
/// nobody records, and which would be hundreds of millions of actions of a replay, in which host
/// time that passes is one every 4.3 s.
Status check_span(const std::string& source, Ns span,
                  std::string_view where = "between its first and its last device work");

}  // namespace foregather::run
