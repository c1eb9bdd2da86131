// The formats that runs can be written to.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/run/run.h"

namespace foregather::traces {

/// Where a writer puts its text, piece by piece.
using TextSink = std::function<Status(std::string_view)>;

/// A run to write, and the instant of it that several runs have in common: the begin of the step
/// that is compared.
struct PlacedRun {
  const run::Run* run = nullptr;
  Ns zero = 0;
  std::string allocator_conf;  ///< PYTORCH_CUDA_ALLOC_CONF of the program, as far as it is known
};

/// One format that runs can be written to.
struct Format {
  std::string_view name;  ///< as `export --format` takes it
  std::string_view doc;   ///< one sentence
  std::size_t most_runs;  ///< written to one file
  Status (*write)(std::span<const PlacedRun>, const TextSink&);
};

std::span<const Format> formats();

/// The format of that name; the error names the known ones.
Result<Format> find_format(std::string_view name);

}  // namespace foregather::traces
