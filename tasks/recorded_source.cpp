#include "tasks/recorded_source.h"

#include "tasks/import.h"
#include "traces/text_source.h"

namespace foregather::tasks {

Result<bool> is_recorded(const std::string& path) {
  const auto head = traces::format_head(path);
  if (!head) return tl::unexpected(head.error());
  return begins_recorded_run(*head);
}

Result<RecordedSource> load_recorded(const std::vector<std::string>& paths,
                                     std::optional<std::int64_t> step) {
  const auto files = import_files(paths);
  if (!files) return tl::unexpected(files.error());
  RecordedSource source;
  std::vector<const run::Recording*> recordings;
  std::vector<std::string> warnings;
  for (const ImportedFile& file : *files) {
    if (!file.recording) return fail_at(file.path, "is no recorded run");
    recordings.push_back(file.recording.get());
    warnings.insert(warnings.end(), file.warnings.begin(), file.warnings.end());
    if (source.device.empty() && !file.recording->devices.empty())
      source.device = file.recording->devices.front();
  }
  auto rebuilt = rebuild::rebuild(recordings, {step});
  if (!rebuilt) return tl::unexpected(rebuilt.error());
  rebuilt->warnings.insert(rebuilt->warnings.begin(), warnings.begin(), warnings.end());
  source.rebuilt = std::move(*rebuilt);
  return source;
}

}  // namespace foregather::tasks
