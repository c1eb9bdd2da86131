#include <algorithm>
#include <cctype>
#include <map>
#include <set>
#include <string>
#include <tuple>

#include "core/base/text.h"
#include "sim/passes/arguments.h"
#include "sim/passes/bucket_rewrite.h"
#include "sim/passes/passes.h"

namespace foregather::sim {
namespace {

enum class By : std::uint8_t { layer, block, size };

// The name up to and including its first piece that is a number; all of it if there is none.
std::string_view block_of(std::string_view scope) {
  constexpr std::string_view kSeparators = "._";
  for (std::size_t begin = 0; begin < scope.size();) {
    const std::size_t end = std::min(scope.find_first_of(kSeparators, begin), scope.size());
    const std::string_view piece = scope.substr(begin, end - begin);
    if (!piece.empty() &&
        std::ranges::all_of(piece, [](unsigned char c) { return std::isdigit(c); }))
      return scope.substr(0, end);
    begin = end + 1;
  }
  return scope;
}

using Members = std::vector<Bucketable>;

// Which collectives go together.
class BucketGrouping {
 public:
  BucketGrouping(const Graph& graph, const HostActions& actions, By by, Bytes size)
      : graph_(graph), actions_(actions), by_(by), size_(size) {}

  std::vector<Members> buckets() const {
    std::vector<Members> all;
    std::map<Key, std::size_t> open;
    for (const Bucketable& member : bucketables(graph_, actions_)) {
      const auto [found, is_new] = open.try_emplace(key(member), all.size());
      if (is_new || !fits(all[found->second], member)) {
        found->second = all.size();
        all.emplace_back();
      }
      Members& bucket = all[found->second];
      bucket.push_back(member);
      if (by_ == By::size && bytes(bucket) >= size_) open.erase(found);
    }
    std::erase_if(all, [](const Members& bucket) { return !can_pack(bucket); });
    // Single ones are packed where others are, as Thunder does.
    const bool packs = std::ranges::any_of(all, [](const Members& b) { return b.size() > 1; });
    if (!packs) all.clear();
    return all;
  }

 private:
  using Key = std::tuple<std::string, std::uint32_t, Phase, std::uint16_t, bool, StreamId, StreamId,
                         CommunicatorId, DType>;

  Key key(const Bucketable& member) const {
    const Op& op = graph_.at(member.op);
    return {by_ == By::size ? "" : name(member),
            actions_.all[member.at].list.thread,
            op.phase,
            op.micro_batch,
            member.is_gather,
            op.stream,
            member.caller,
            op.communicator,
            graph_.at(member.input.tensor).dtype};
  }

  std::string name(const Bucketable& member) const {
    const UnitId row = graph_.at(member.op).unit;
    const ScopeId module = graph_.at(row).scope;
    if (!module) return fmt::format("\n{}", row.row());  // of no module: by itself
    const std::string_view unit = graph_.scope_name(module);
    if (!unit.empty()) return std::string(by_ == By::block ? block_of(unit) : unit);
    // The unit is the whole model: its parameters' names tell.
    const std::string parameter = parameter_name(member);
    if (by_ == By::block) return std::string(block_of(parameter));
    return parameter.substr(0, parameter.rfind('.'));
  }

  std::string parameter_name(const Bucketable& member) const {
    const AccessedTensor& shard = member.is_gather ? member.input : member.output;
    const std::string_view scope = graph_.scope_name(graph_.at(member.op).scope);
    const std::string_view name = graph_.text(graph_.at(graph_.at(shard.tensor).storage).name);
    return fmt::format("{}{}{}", scope, scope.empty() ? "" : ".", name);
  }

  // Is the parameter's storage free from where the bucket is unpacked on?
  bool fits(const Members& bucket, const Bucketable& member) const {
    if (!member.is_gather) return true;
    const ActionIndex unpacked =
        std::min(std::ranges::min(bucket, {}, &Bucketable::wait).wait, member.wait);
    const Lifetime& own = actions_.bindings[member.output_life];
    return std::ranges::none_of(actions_.bindings, [&](const Lifetime& other) {
      return other.storage == own.storage && other.begin < own.begin &&
             (!other.end || *other.end > unpacked);
    });
  }

  Bytes bytes(const Members& bucket) const {
    Bytes sum = 0;
    for (const Bucketable& member : bucket)
      sum += graph_.at(graph_.at(member.op).cost).message_bytes;
    return sum;
  }

  // All are there before the first is waited for.
  static bool can_pack(const Members& bucket) {
    if (bucket.front().is_gather) return true;
    return std::ranges::all_of(
        bucket, [&](const Bucketable& member) { return member.wait > bucket.back().end; });
  }

  const Graph& graph_;
  const HostActions& actions_;
  By by_;
  Bytes size_;
};

struct Bucket {
  std::string text;
  By by = By::layer;
  Bytes size = 0;

  Result<PassNote> operator()(PassTarget& target) const {
    Rewriter rewriter(target.graph);
    std::size_t packed = 0, buckets = 0;
    for (std::size_t p = 0; p < rewriter.graph().programs.size(); ++p) {
      const ProgramId program(p);
      const HostActions sections[2] = {{rewriter.graph(), program, Section::first},
                                       {rewriter.graph(), program, Section::body}};
      std::vector<Members> found[2];
      for (int s = 0; s < 2; ++s)
        found[s] = BucketGrouping(rewriter.graph(), sections[s], by, size).buckets();
      BucketRows rows;
      for (int s = 0; s < 2; ++s)
        for (const Members& bucket : found[s]) {
          if (!agrees(bucket, found[1 - s], sections[1 - s])) continue;
          rewrite_bucket(rewriter, program, sections[s], bucket, rows);
          if (s == 0) continue;
          ++buckets;
          packed += bucket.size();
        }
    }
    if (buckets == 0)
      return PassNote{text,
                      "no two collectives of single parameters, waited for on the stream that "
                      "issued them, go into one bucket",
                      false};
    return settle(
        target, rewriter,
        {text, fmt::format("{} collectives of a step in {} buckets", packed, buckets), true});
  }

  // The other section has the same bucket, or none of its collectives.
  static bool agrees(const Members& bucket, const std::vector<Members>& others,
                     const HostActions& section) {
    const auto same = [&](const Members& other) {
      return std::ranges::equal(bucket, other, {}, &Bucketable::op, &Bucketable::op);
    };
    if (std::ranges::any_of(others, same)) return true;
    for (ActionIndex at = 0; at < section.all.size(); ++at)
      if (section.is_launch(at) &&
          std::ranges::any_of(bucket, [&](const Bucketable& b) { return b.op == section.op(at); }))
        return false;
    return true;
  }
};

Result<Pass> parse_bucket(const PassArguments& arguments) {
  Bucket bucket;
  bucket.text = arguments.text;
  bool is_read = arguments.options.empty();
  if (arguments.argument == "block") {
    bucket.by = By::block;
  } else if (arguments.argument != "layer") {
    bucket.by = By::size;
    const auto size = parse_bytes(arguments.argument);
    is_read = is_read && size && arguments.argument.ends_with('B');
    bucket.size = size.value_or(0);
  }
  if (!is_read)
    return bad_pass(arguments,
                    "expected bucket=layer, bucket=block or bucket=SIZE with a size such as 25MiB");
  return Pass(bucket);
}

}  // namespace

// thunder/distributed/transforms/fsdp.py: FSDPCommBucketing (reference: Thunder §B.3).
const PassInfo kBucketPass{
    "bucket", "=layer|block|SIZE",
    "packs gathers, and reductions, of a module, a block or SIZE (25MiB) into one collective each",
    R"(Thunder's bucketing. The shards of a bucket are copied into one buffer where its first gather was
issued, gathered, and copied out into the parameters where the first was waited for: fewer, larger
collectives for two copies, and twice the gathered bytes for the time of the second. The gradients of a
bucket are copied into one buffer where the last reduction was issued; they live until the reduction is
waited for, and its results are views of one buffer. `layer` takes parameters of one module, `block` of one
module path up to its first number (`layers.0`), SIZE consecutive ones until it is reached.

    before  ag1 ag2 wait1 wait2 lin                  dw2 rs2 dw1 rs1 rwait2 rwait1
    after   pack ag wait unpack lin                  dw2 dw1 pack rs rwait

Takes collectives of one parameter each, that the stream waits for which issues them (Thunder, ZeRO-3); single
ones are packed, too, where others are. Gathers of whole units (FSDP) are packed already, and
reductions stay where their results outlive the step. Idempotent.
)",
    &parse_bucket};

}  // namespace foregather::sim
