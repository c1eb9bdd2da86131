// The formats that import reads, each in a file of its own: tasks/import_FORMAT.cpp.
#pragma once

#include <array>

#include "core/base/result.h"
#include "tasks/import.h"
#include "traces/text_source.h"

namespace foregather::tasks {

/// What is to be read: a member of a path, front to back.
struct ImportSource {
  const traces::TextMember& member;
  traces::TextSource& text;
  Bytes file_bytes = 0;  ///< of the file as it lies on the disk
};

/// A row of the registry.
struct Importer {
  std::string_view name;  ///< "a printed Thunder trace", for the error that lists what can be read
  /// Is this the beginning of such a text? At most 64 KiB.
  bool (*is_format)(std::string_view head);
  Result<ImportedFile> (*read)(const ImportSource& source);
  bool records_runs = true;  ///< ImportedFile::recording is filled
};

extern const Importer kThunderImporter;         // import_thunder.cpp
extern const Importer kTimelineImporter;        // import_timeline.cpp
extern const Importer kKinetoImporter;          // import_kineto.cpp
extern const Importer kNsysImporter;            // import_nsys.cpp
extern const Importer kChakraImporter;          // import_chakra.cpp
extern const Importer kExecutionTraceImporter;  // import_execution_trace.cpp
extern const Importer kSnapshotImporter;        // import_snapshot.cpp

/// The first whose is_format() says yes reads a file.
inline constexpr std::array kImporters{
    &kThunderImporter, &kTimelineImporter,       &kKinetoImporter,  &kNsysImporter,
    &kChakraImporter,  &kExecutionTraceImporter, &kSnapshotImporter};

}  // namespace foregather::tasks
