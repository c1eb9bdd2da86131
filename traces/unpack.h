// gzip and zstd as TextSources.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "traces/text_source.h"

namespace foregather::traces {

bool is_gzip(std::string_view head);
bool is_zstd(std::string_view head);

/// Unpack what `packed` holds; `path` is the place of errors. Several gzip members or zstd frames
/// one after another are one text. Errors of read(): damaged or cut data, more than
/// kMostUnpackedBytes.
std::unique_ptr<TextSource> ungzip(std::unique_ptr<TextSource> packed, std::string path);
std::unique_ptr<TextSource> unzstd(std::unique_ptr<TextSource> packed, std::string path);

}  // namespace foregather::traces
