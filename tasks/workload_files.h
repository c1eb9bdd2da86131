// The files that a workload is read with.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace foregather::tasks {

/// Paths of files, and digests of what they hold.
using FileDigests = std::vector<std::pair<std::string, std::string>>;

/// Files of models, machines and foreign configurations that a workload's text and --set name, each
/// once; none of a text that is no workload. What cannot be read is left to who asks for it.
std::vector<std::string> workload_files(const std::string& text, const std::string& source,
                                        const std::vector<std::string>& sets);

/// Regular files but `known` with digests of what they hold: SHA-256; of more than 64 MiB that of
/// the length, the first 32 MiB and the last.
FileDigests digests_of(const std::vector<std::string>& files, const std::string& known);

}  // namespace foregather::tasks
