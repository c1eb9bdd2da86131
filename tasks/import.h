// The use case of `foregather import`: what do these files of other tools hold?
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/base/result.h"
#include "traces/thunder_facts.h"

namespace foregather::tasks {

/// One file of Thunder traces.
struct ImportedFile {
  std::string path;
  std::unique_ptr<const std::string> text;  ///< what `facts` has views into
  traces::ThunderFacts facts;
  std::vector<std::pair<std::string, std::int64_t>> dropped;  ///< reason, lines
  std::vector<std::string> warnings;
};

/// Reads every file. Errors: one that cannot be read, or is in no format that import knows.
Result<std::vector<ImportedFile>> import_files(const std::vector<std::string>& paths);

/// The JSON object of `import --json`, with a line end: one file's keys at the top level, of
/// several under `files` by path. See docs/formats.md.
std::string to_json(const std::vector<ImportedFile>& files);

}  // namespace foregather::tasks
