// Runs as one archive for Perfetto.
#pragma once

#include <span>
#include <string_view>

#include "traces/formats.h"

namespace foregather::traces {

/// The member that says how the others lie together: no trace.
inline constexpr std::string_view kPerfettoManifest = "perfetto_manifest.json";

/// A tar archive of Chrome traces, one a rank class ("predicted/rank_0.json"), and a manifest by
/// which Perfetto 58 and later show them on one axis: each run is a machine, "predicted" or
/// "measured" (of two of one kind with a number behind it), and the `zero` of all runs is one
/// instant. The run whose zero comes last keeps its times, the others move behind, so that nothing
/// comes before time 0. Readers that take a file for a rank read the unpacked folders.
///
/// Source of the manifest: perfetto.dev/docs/reference/perfetto-manifest, version 1. Every trace is
/// written twice, the first time to count its bytes. At least one run. Errors: as of tar_header().
Status write_perfetto(std::span<const PlacedRun> runs, const TextSink& sink);

}  // namespace foregather::traces
