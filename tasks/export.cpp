#include "tasks/export.h"

#include "core/store/location.h"
#include "core/store/reader.h"
#include "tasks/outputs.h"
#include "traces/formats.h"

namespace foregather::tasks {

std::vector<ExportFormat> export_formats() {
  std::vector<ExportFormat> formats;
  for (const traces::Format& format : traces::formats())
    formats.push_back({std::string(format.name), std::string(format.doc)});
  return formats;
}

Status write_run(run::RunView run, const std::string& format, PendingFile& file) {
  const auto found = traces::find_format(format);
  if (!found) return tl::unexpected(found.error());
  return found->write(run, [&](std::string_view text) { return file.write(text); });
}

Status export_run(const std::string& location, const std::string& format,
                  const std::string& output) {
  if (const auto known = traces::find_format(format); !known) return tl::unexpected(known.error());
  if (is_same_file(store::parse_location(location).path, output))
    return fail_at(output, "is the database to export, expected another file to write");
  auto file = PendingFile::create(output);
  if (!file) return tl::unexpected(file.error());
  const auto run = store::read_run(location);
  if (!run) return tl::unexpected(run.error());
  if (Status written = write_run(*run, format, *file); !written) return written;
  return file->commit();
}

}  // namespace foregather::tasks
