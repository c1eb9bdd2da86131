// The rows of the registry, each defined in the file of its pass.
#pragma once

#include "sim/passes/pass.h"

namespace foregather::sim {

extern const PassInfo kScalePass;                           // scale.cpp
extern const PassInfo kDelayPass;                           // delay.cpp
extern const PassInfo kIdealPass;                           // ideal.cpp
extern const PassInfo kDedupPass;                           // dedup_shared_params.cpp
extern const PassInfo kFuseDowncastPass;                    // fuse_downcast.cpp
extern const PassInfo kFusionPass;                          // fusion.cpp
extern const PassInfo kRecomputePass;                       // recompute.cpp
extern const PassInfo kOrderPass;                           // order.cpp
extern const PassInfo kPrefetchPass, kForwardPrefetchPass;  // prefetch.cpp
extern const PassInfo kBucketPass;                          // bucket.cpp
extern const PassInfo kReshardPass, kRematerializePass;     // reshard.cpp
extern const PassInfo kLimitPass;                           // limit_all_gathers.cpp

extern const PassInfo kSelectiveGatherPass;  // selective_gather.cpp
// Arguments of kOrderPass and kPrefetchPass that have files of their own.
Result<Pass> parse_fast_free(const PassArguments& arguments);        // fast_free_pass.cpp
Result<Pass> parse_prefetch_budget(const PassArguments& arguments);  // prefetch_budget.cpp

extern const PassInfo kSortWaitsPass, kSortCommunicationPass,
    kInFlightPass;  // sort_communication.cpp

}  // namespace foregather::sim
