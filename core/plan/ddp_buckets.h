// DDP's gradient buckets.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/units.h"

namespace foregather::plan {

/// Where a parameter's gradient lies.
struct BucketPlace {
  std::uint32_t bucket = 0;
  std::int64_t offset = 0;  ///< elements
};

/// An assignment of parameters to buckets; buckets are reduced in this order.
struct BucketPlan {
  std::vector<std::vector<std::uint32_t>> members;  ///< rows of parameters by bucket
  std::vector<std::int64_t> elements;               ///< by bucket
  std::vector<BucketPlace> places;                  ///< by row
};

/// Fills buckets with the parameters in `order` (rows of `sizes`, which are in elements). A bucket
/// is closed once it holds its limit or more, in bytes, so it may be larger; the first one has a
/// limit of its own (torch.distributed: compute_bucket_assignment_by_size and
/// Reducer::rebuild_buckets; tests/oracles, cases ddp/cap_*).
BucketPlan assign_buckets(std::span<const std::uint32_t> order, std::span<const std::int64_t> sizes,
                          Bytes element, Bytes first_limit, Bytes limit);

/// The same buckets, the last one first.
BucketPlan reversed(BucketPlan plan);

/// One bucket of all rows: what DDP begins with unless it looks for unused parameters.
BucketPlan single_bucket(std::span<const std::uint32_t> rows, std::span<const std::int64_t> sizes);

}  // namespace foregather::plan
