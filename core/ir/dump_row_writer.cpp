#include "core/ir/dump_row_writer.h"

#include "core/ir/references.h"

namespace foregather {

void RowWriter::quoted(std::string_view text) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out_ += '"';
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out_ += '\\';
      out_ += c;
    } else if (c == '\n') {
      out_ += "\\n";
    } else if (c == '\t') {
      out_ += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      out_ += "\\x";
      out_ += kHex[byte >> 4];
      out_ += kHex[byte & 15];
    } else {
      out_ += c;
    }
  }
  out_ += '"';
}

// Runs of consecutive ranks as FIRST-LAST.
void RowWriter::ranks(Range range) {
  const std::span<const std::uint32_t> ranks = graph_.ranks_of(range);
  begin_field("ranks");
  for (std::size_t first = 0; first < ranks.size();) {
    std::size_t last = first;
    while (last + 1 < ranks.size() && ranks[last + 1] == ranks[last] + 1) ++last;
    if (first != 0) out_ += ',';
    plain(ranks[first]);
    if (last != first) {
      out_ += '-';
      plain(ranks[last]);
    }
    first = last + 1;
  }
}

void RowWriter::op_list(std::string_view key, std::span<const OpId> ops) {
  if (ops.empty()) return;
  begin_field(key);
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (i != 0) out_ += ',';
    plain_id('o', ops[i].row());
  }
}

void RowWriter::access(const AccessedTensor& part) {
  begin_field(name(part.mode));
  plain_id('t', part.tensor.row());
  if (part.offset == 0 && part.bytes == bytes_of(graph_, graph_.at(part.tensor))) return;
  out_ += '+';
  plain(part.offset);
  out_ += ':';
  plain(part.bytes);
}

void RowWriter::shape(const Tensor& tensor) {
  word(name(tensor.dtype));
  out_ += '[';
  for (std::uint32_t at = tensor.shape.first; at < tensor.shape.end(); ++at) {
    if (at != tensor.shape.first) out_ += ',';
    plain(graph_.dims[at]);
  }
  out_ += ']';
}

}  // namespace foregather
