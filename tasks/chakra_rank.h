// Which rank a trace is of.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace foregather::tasks {

/// The last number in the file's name, folders and endings aside: 3 of "fsdp.3.et.gz" and of
/// "job8/rank_3.json", nothing of "trace.et". Chakra's tools number the files of a job so; the
/// format itself does not hold the rank.
std::optional<std::uint32_t> chakra_rank(std::string_view path);

}  // namespace foregather::tasks
