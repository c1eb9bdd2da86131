#include "core/run/span.h"

#include "core/base/text.h"

namespace foregather::run {

Status check_span(const std::string& source, Ns span, std::string_view where) {
  constexpr Ns kLongest = Ns{30} * 24 * 3600 * kSecond;
  if (span <= kLongest) return {};
  return fail_at(source,
                 "has {} {}, expected at most 30 days: the time of an event is damaged, or a step "
                 "must be chosen",
                 format_time(span), where);
}

}  // namespace foregather::run
