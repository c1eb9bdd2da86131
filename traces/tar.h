// Tar archives, front to back: read (ustar, GNU and pax long names) and written (ustar).
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/result.h"
#include "core/base/units.h"
#include "traces/text_source.h"

namespace foregather::traces {

inline constexpr std::size_t kTarBlock = 512;

/// Is this, at least a block long, the beginning of an archive?
bool is_tar(std::string_view head);

struct TarMember {
  std::string name;
  Bytes bytes = 0;
};

/// Visits the regular files of an archive in order; what `visit` leaves unread is skipped. `path`
/// is the place of errors: a damaged header, an archive that ends inside a member.
Status visit_tar(TextSource& archive, const std::string& path,
                 const std::function<Status(const TarMember&, TextSource&)>& visit);

/// The header of a regular file without owner and date: equal files make equal archives. Errors: a
/// name of more than 99 bytes; 8 GiB or more.
Result<std::string> tar_header(const TarMember& member);

/// What follows the content of a member of that size.
std::string_view tar_padding(Bytes bytes);

/// What follows the last member.
std::string_view tar_end();

}  // namespace foregather::traces
