// The rows of the registry, each defined in the file of its pass.
#pragma once

#include <array>

#include "sim/passes/pass.h"

namespace foregather::sim {

extern const PassInfo kScalePass;              // scale.cpp
extern const PassInfo kDelayPass;              // delay.cpp
extern const PassInfo kIdealPass;              // ideal.cpp
extern const PassInfo kDedupPass;              // dedup_shared_params.cpp
extern const PassInfo kFuseDowncastPass;       // fuse_downcast.cpp
extern const PassInfo kPrefetchPass;           // prefetch.cpp
extern const PassInfo kForwardPrefetchPass;    // prefetch.cpp
extern const PassInfo kLimitPass;              // limit_all_gathers.cpp
extern const PassInfo kReshardPass;            // reshard.cpp
extern const PassInfo kRematerializePass;      // reshard.cpp
extern const PassInfo kBucketPass;             // bucket.cpp
extern const PassInfo kSortWaitsPass;          // sort_communication.cpp
extern const PassInfo kSortCommunicationPass;  // sort_communication.cpp
extern const PassInfo kInFlightPass;           // sort_communication.cpp
extern const PassInfo kFusionPass;             // fusion.cpp
extern const PassInfo kRecomputePass;          // recompute.cpp
extern const PassInfo kOrderPass;              // order.cpp
extern const PassInfo kSelectiveGatherPass;    // selective_gather.cpp

/// In the order in which help and documentation list them.
inline constexpr std::array kPasses{&kScalePass,
                                    &kDelayPass,
                                    &kIdealPass,
                                    &kDedupPass,
                                    &kFuseDowncastPass,
                                    &kPrefetchPass,
                                    &kForwardPrefetchPass,
                                    &kLimitPass,
                                    &kReshardPass,
                                    &kRematerializePass,
                                    &kBucketPass,
                                    &kSortWaitsPass,
                                    &kSortCommunicationPass,
                                    &kInFlightPass,
                                    &kFusionPass,
                                    &kRecomputePass,
                                    &kOrderPass,
                                    &kSelectiveGatherPass};

// Arguments of kOrderPass and kPrefetchPass that have files of their own.
Result<Pass> parse_fast_free(const PassArguments& arguments);        // fast_free_pass.cpp
Result<Pass> parse_prefetch_budget(const PassArguments& arguments);  // prefetch_budget.cpp

}  // namespace foregather::sim
