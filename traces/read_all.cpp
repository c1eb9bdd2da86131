#include "traces/read_all.h"

namespace foregather::traces {

Result<std::string> read_all(TextSource& source, const std::string& name, Bytes limit) {
  constexpr std::size_t kPiece = std::size_t{1} << 20;
  std::string text;
  for (;;) {
    const std::size_t old = text.size();
    text.resize(old + kPiece);
    const auto n = source.read(std::span(text).subspan(old));
    if (!n) return tl::unexpected(n.error());
    text.resize(old + *n);
    if (static_cast<Bytes>(text.size()) > limit)
      return fail_at(name, "has more than {} MiB, expected less", limit / MiB);
    if (*n < kPiece) return text;
  }
}

}  // namespace foregather::traces
