#include "core/plan/ddp_buckets.h"

#include <algorithm>
#include <limits>

namespace foregather::plan {

BucketPlan assign_buckets(std::span<const std::uint32_t> order, std::span<const std::int64_t> sizes,
                          Bytes element, Bytes first_limit, Bytes limit) {
  BucketPlan plan;
  plan.places.resize(sizes.size());
  bool is_open = false;
  for (const std::uint32_t row : order) {
    if (!is_open) {
      plan.members.emplace_back();
      plan.elements.push_back(0);
      is_open = true;
    }
    plan.places[row] = {static_cast<std::uint32_t>(plan.members.size() - 1), plan.elements.back()};
    plan.members.back().push_back(row);
    plan.elements.back() += sizes[row];
    const Bytes most = plan.members.size() == 1 ? first_limit : limit;
    is_open = plan.elements.back() * element < most;
  }
  return plan;
}

BucketPlan reversed(BucketPlan plan) {
  std::ranges::reverse(plan.members);
  std::ranges::reverse(plan.elements);
  const auto last = static_cast<std::uint32_t>(plan.members.size() - 1);
  for (BucketPlace& place : plan.places) place.bucket = last - place.bucket;
  return plan;
}

BucketPlan single_bucket(std::span<const std::uint32_t> rows, std::span<const std::int64_t> sizes) {
  constexpr Bytes kNoLimit = std::numeric_limits<Bytes>::max();
  return assign_buckets(rows, sizes, 1, kNoLimit, kNoLimit);
}

}  // namespace foregather::plan
