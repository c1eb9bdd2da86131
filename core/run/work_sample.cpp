#include "core/run/work_sample.h"

#include <tuple>

namespace foregather::run {

bool is_before(const WorkSample& a, const WorkSample& b) {
  const auto key = [](const WorkSample& s) {
    return std::tuple(s.cost.kind, std::string_view(s.kernel), s.cost.dtype, s.cost.flops,
                      s.bytes(), s.threads, s.cost.bytes_read, s.cost.m, s.cost.n, s.cost.k,
                      s.cost.batch, s.ranks, s.time);
  };
  return key(a) < key(b);
}

}  // namespace foregather::run
