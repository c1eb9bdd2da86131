#include "core/ir/dump.h"
#include "core/ir/dump_row_writer.h"

namespace foregather {
namespace {

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
    out_.field("launch_lead", row.launch_lead, row.lead);
    out_.field("lead", row.lead);
    out_.field("late", row.lateness);
    out_.field("kernels", row.kernels, 1);
    out_.field("host_ops", row.host_ops, 1);
    if (row.usual_time) out_.field("usual", *row.usual_time, -1);
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
      case ActionKind::launch: out_.row('o', row.a); break;
      case ActionKind::alloc:
      case ActionKind::record_stream:
        out_.row('b', row.a);
        out_.id('q', row.stream);
        break;
      case ActionKind::free: out_.row('b', row.a); break;
      case ActionKind::release: out_.row('t', row.a); break;
      case ActionKind::record:
        out_.row('e', row.a);
        out_.id('q', row.stream);
        break;
      case ActionKind::wait:
        out_.id('q', row.stream);
        out_.row('e', row.a);
        break;
      case ActionKind::host_wait_event: out_.row('e', row.a); break;
      case ActionKind::host_wait_stream: out_.id('q', row.stream); break;
      case ActionKind::host_wait_action:
        out_.row('h', row.a);
        out_.number(row.b);
        break;
      case ActionKind::host_delay: out_.number(row.a); break;
      case ActionKind::mark:
        out_.number(row.a);
        out_.word(name(static_cast<Phase>(row.b)));
        break;
      case ActionKind::host_wait_device:
      case ActionKind::empty_cache: break;
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
