#include "tasks/recorded_source.h"

#include "tasks/import.h"
#include "traces/text_source.h"

namespace foregather::tasks {

Result<bool> is_recorded(const std::string& path) {
  bool is_first = true, is_recorded = false;
  const Status status =
      traces::visit_texts(path, [&](const traces::TextMember&, traces::TextSource& text) -> Status {
        if (!std::exchange(is_first, false)) return {};
        std::string head(std::size_t{1} << 16, '\0');
        const auto n = text.read(head);
        if (!n) return tl::unexpected(n.error());
        is_recorded = begins_recorded_run(std::string_view(head).substr(0, *n));
        return {};
      });
  if (!status) return tl::unexpected(status.error());
  return is_recorded;
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
