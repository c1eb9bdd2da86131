#include <charconv>

#include "core/ir/dump.h"
#include "core/ir/names.h"
#include "core/ir/references.h"

namespace foregather {
namespace {

// Appends words to one text. Every method but line() starts with the separating space.
class RowWriter {
 public:
  explicit RowWriter(const Graph& graph) : graph_(graph) {}

  void line(std::string_view indent, std::string_view first_word) {
    end_line();
    out_ += indent;
    out_ += first_word;
  }
  void line(std::string_view indent, char letter, std::size_t row) {
    end_line();
    out_ += indent;
    plain_id(letter, row);
  }
  void word(std::string_view text) {
    out_ += ' ';
    out_ += text;
  }
  void number(std::int64_t value) {
    out_ += ' ';
    plain(value);
  }
  template <class Tag>
  void id(char letter, Id<Tag> id) {
    if (id) row(letter, id.row());
  }
  void row(char letter, std::uint32_t row) {
    out_ += ' ';
    plain_id(letter, row);
  }
  void text(StringId id) {
    if (!id) return;
    out_ += ' ';
    quoted(graph_.text(id));
  }
  void field(std::string_view key, std::int64_t value, std::int64_t usual = 0) {
    if (value == usual) return;
    begin_field(key);
    plain(value);
  }
  template <class Enum>
  void choice(std::string_view key, Enum value, Enum usual) {
    if (value == usual) return;
    begin_field(key);
    out_ += name(value);
  }
  void offset(Bytes bytes) {
    if (bytes == 0) return;
    out_ += " +";
    plain(bytes);
  }
  void rows(std::string_view key, char letter, Range range) {
    if (range == Range{}) return;
    begin_field(key);
    plain_id(letter, range.first);
    out_ += '+';
    plain(range.count);
  }
  void ranks(Range range);
  void op_list(std::string_view key, std::span<const OpId> ops);
  void access(const AccessedTensor& part);
  void shape(const Tensor& tensor);

  std::string take() {
    end_line();
    return std::move(out_);
  }

 private:
  void end_line() {
    if (!out_.empty()) out_ += '\n';
  }
  void begin_field(std::string_view key) {
    out_ += ' ';
    out_ += key;
    out_ += '=';
  }
  void plain(std::int64_t value) {
    char digits[24];
    const auto end = std::to_chars(digits, digits + sizeof digits, value).ptr;
    out_.append(digits, end);
  }
  void plain_id(char letter, std::size_t row) {
    out_ += letter;
    plain(static_cast<std::int64_t>(row));
  }
  void quoted(std::string_view text);

  const Graph& graph_;
  std::string out_;
};

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

// Which rows there are, and the order of their fields.
class DumpWriter {
 public:
  explicit DumpWriter(const Graph& graph) : graph_(graph), out_(graph) {}

  std::string run() {
    out_.line("", kDumpHeader);
    job();
    for (std::uint32_t row = 0; row < graph_.strings.size(); ++row) {
      out_.line("", 'n', row);
      out_.text(StringId(row));
    }
    each('s', graph_.scopes);
    each('g', graph_.groups);
    each('c', graph_.communicators);
    each('u', graph_.units);
    each('k', graph_.costs);
    each('b', graph_.storages);
    each('t', graph_.tensors);
    each('o', graph_.ops);
    each('p', graph_.programs);
    each('r', graph_.classes);
    out_.line("", "end");
    return out_.take();
  }

 private:
  template <class Rows>
  void each(char letter, const Rows& rows) {
    for (std::size_t row = 0; row < rows.size(); ++row) {
      out_.line("", letter, row);
      write(rows[row]);
    }
  }

  void job() {
    out_.line("", "job");
    out_.field("world", graph_.world_size);
    out_.field("parameters", graph_.parameters);
    out_.field("tokens", graph_.tokens_per_rank_step);
    out_.field("flops", graph_.model_flops_per_rank_step);
  }

  void write(const Scope& row) { out_.text(row.name); }

  void write(const Group& row) {
    out_.text(row.name);
    out_.ranks(row.ranks);
    out_.field("instances", row.instances, 1);
    out_.field("nodes", row.nodes, 1);
  }

  void write(const Communicator& row) {
    out_.text(row.name);
    out_.id('g', row.group);
  }

  void write(const Unit& row) {
    const Unit usual;
    out_.id('s', row.scope);
    out_.id('g', row.group);
    out_.field("parameters", row.parameters);
    out_.field("padded", row.padded_elements);
    out_.choice("stored", row.stored, usual.stored);
    out_.choice("gathered", row.gathered, usual.gathered);
    out_.choice("reduced", row.reduced, usual.reduced);
    out_.choice("reshard", row.reshard, usual.reshard);
  }

  void write(const Cost& row) {
    out_.word(name(row.kind));
    out_.word(name(row.dtype));
    out_.field("flops", row.flops);
    out_.field("read", row.bytes_read);
    out_.field("written", row.bytes_written);
    out_.field("m", row.m);
    out_.field("n", row.n);
    out_.field("k", row.k);
    out_.field("batch", row.batch);
    out_.field("message", row.message_bytes);
    out_.id('g', row.group);
    if (row.is_fixed) out_.field("fixed", row.fixed_time, -1);
    out_.field("kernels", row.kernels, 1);
  }

  void write(const Storage& row) {
    out_.number(row.bytes);
    out_.text(row.name);
    out_.id('s', row.scope);
    out_.id('u', row.unit);
    out_.word(name(row.cause));
    if (row.on_host) out_.word("host");
  }

  void write(const Tensor& row) {
    out_.id('b', row.storage);
    out_.shape(row);
    out_.offset(row.offset);
  }

  void write(const Op& row) {
    out_.word(name(row.kind));
    out_.word(name(row.role));
    out_.word(name(row.phase));
    out_.field("micro_batch", row.micro_batch);
    out_.field("ordinal", row.ordinal);
    out_.id('s', row.scope);
    out_.id('u', row.unit);
    out_.id('q', row.stream);
    out_.id('c', row.communicator);
    out_.field("sequence", row.sequence);
    out_.id('k', row.cost);
    for (const AccessedTensor& part : graph_.accesses_of(row)) out_.access(part);
    out_.op_list("deps", graph_.deps_of(row));
    out_.op_list("origins", graph_.origins_of(row));
  }

  void write(const Program& row) {
    out_.text(row.name);
    out_.rows("ops", 'o', row.ops);
    out_.rows("storages", 'b', row.storages);
    out_.rows("events", 'e', row.events);
    for (std::size_t q = 0; q < row.streams.size(); ++q) {
      out_.line("  ", 'q', q);
      out_.text(row.streams[q].name);
      out_.field("priority", row.streams[q].priority);
    }
    for (std::size_t h = 0; h < row.threads.size(); ++h) {
      out_.line("  ", 'h', h);
      out_.text(row.threads[h].name);
      for (const Section section : {Section::init, Section::first, Section::body}) {
        if (row.threads[h].actions(section).empty()) continue;
        out_.line("    ", "section");
        out_.word(name(section));
        for (const Action& action : row.threads[h].actions(section)) write(action);
      }
    }
  }

  void write(const Action& row) {
    out_.line("      ", name(row.kind));
    switch (row.kind) {
      case ActionKind::launch:
        out_.row('o', row.a);
        break;
      case ActionKind::alloc:
      case ActionKind::record_stream:
        out_.row('b', row.a);
        out_.id('q', row.stream);
        break;
      case ActionKind::free:
        out_.row('b', row.a);
        break;
      case ActionKind::release:
        out_.row('t', row.a);
        break;
      case ActionKind::record:
        out_.row('e', row.a);
        out_.id('q', row.stream);
        break;
      case ActionKind::wait:
        out_.id('q', row.stream);
        out_.row('e', row.a);
        break;
      case ActionKind::host_wait_event:
        out_.row('e', row.a);
        break;
      case ActionKind::host_wait_stream:
        out_.id('q', row.stream);
        break;
      case ActionKind::host_wait_action:
        out_.row('h', row.a);
        out_.number(row.b);
        break;
      case ActionKind::host_delay:
        out_.number(row.a);
        break;
      case ActionKind::mark:
        out_.number(row.a);
        out_.word(name(static_cast<Phase>(row.b)));
        break;
      case ActionKind::host_wait_device:
      case ActionKind::empty_cache:
        break;
    }
  }

  void write(const RankClass& row) {
    const RankClass usual;
    out_.text(row.name);
    out_.id('p', row.program);
    out_.ranks(row.ranks);
    out_.field("hardware", row.hardware);
    out_.field("compute_scale_ppm", row.compute_scale_ppm, usual.compute_scale_ppm);
    out_.field("delay", row.start_delay);
  }

  const Graph& graph_;
  RowWriter out_;
};

}  // namespace

std::string dump(const Graph& graph) { return DumpWriter(graph).run(); }

}  // namespace foregather
