#include "core/plan/module_tree.h"

#include <algorithm>
#include <functional>
#include <map>
#include <numeric>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/ranges.h>

#include "core/base/suggest.h"
#include "core/plan/model.h"

namespace foregather::plan {

namespace {

using Kind = TreeNode::Kind;

bool has_weight(Kind kind) {
  return kind == Kind::linear || kind == Kind::embedding || kind == Kind::parameter;
}

// What a linear, an embedding or a parameter shares; torch.nn.Linear stores [out, in].
std::vector<std::int64_t> weight_shape(const TreeNode& node) {
  if (node.kind == Kind::parameter) return node.shape;
  return node.kind == Kind::linear ? std::vector{node.out, node.in}
                                   : std::vector{node.in, node.out};
}

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies());
}

/// What one sequence, or all there is, looks like between two modules.
struct Rows {
  bool ids = false;
  std::int64_t width = 0;
  std::int64_t positions = 1;
};

class TreePlanner {
 public:
  TreePlanner(const ModuleTree& tree, const TreeBatch& batch) : tree_(tree), batch_(batch) {}

  Result<TreePlan> plan() {
    std::string path;
    flatten(tree_.children, path, 0, 0, 0);
    nesting();
    chain();
    ties();
    if (!error_)
      for (const TreeLeaf& leaf : plan_.leaves) plan_.parameters += parameters_of(leaf);
    if (error_) return tl::unexpected(*error_);
    return std::move(plan_);
  }

 private:
  template <class... Args>
  void complain(const std::string& place, fmt::format_string<Args...> format, Args&&... args) {
    if (!error_)
      error_ = Error{place, fmt::format(format, std::forward<Args>(args)...), Fault::input};
  }

  // --- nesting ---

  void flatten(const std::vector<TreeNode>& nodes, std::string& path, std::uint32_t wrap,
               Ns forward_delay, Ns backward_delay) {
    const std::size_t length = path.size();
    for (const TreeNode& node : nodes) {
      path.resize(length);
      if (length > 0) path += '.';
      path += node.name;
      const auto first = static_cast<std::uint32_t>(plan_.leaves.size());
      std::uint32_t own = wrap;
      if (node.wraps) own = unit_of(node, path, first);
      // A container waits before its first module's forward, and before its last one's backward.
      const bool is_first = &node == &nodes.front();
      const bool is_last = &node == &nodes.back();
      const Ns forward = node.forward_delay + (is_first ? forward_delay : 0);
      const Ns backward = node.backward_delay + (is_last ? backward_delay : 0);
      if (node.kind == Kind::container)
        flatten(node.children, path, own, forward, backward);
      else
        plan_.leaves.push_back({&node, path, {}, 0, own, forward, backward, false});
      if (node.wraps)
        plan_.wraps[own - 1].last_module = static_cast<std::uint32_t>(plan_.leaves.size() - 1);
    }
    path.resize(length);
  }

  // The number of its mark.
  std::uint32_t unit_of(const TreeNode& node, const std::string& path, std::uint32_t first) {
    if (const auto known = units_.find(node.unit); known != units_.end()) {
      if (plan_.list_place.empty()) plan_.list_place = node.wrap_place;
      return known->second;
    }
    plan_.wraps.push_back({node.unit.empty() ? path : node.unit, first, first, node.is_alone});
    const auto number = static_cast<std::uint32_t>(plan_.wraps.size());
    if (!node.unit.empty()) units_.emplace(node.unit, number);
    return number;
  }

  // A unit of several modules begins before the first and ends behind the last of them.
  void nesting() {
    std::vector<const WrapMark*> open;
    for (const WrapMark& mark : plan_.wraps) {
      while (!open.empty() && open.back()->last_module < mark.first_module) open.pop_back();
      if (!open.empty() && open.back()->last_module < mark.last_module)
        complain(plan_.list_place,
                 "the unit of '{}' begins within that of '{}' and ends behind it, expected units "
                 "one within the other",
                 mark.path, open.back()->path);
      open.push_back(&mark);
    }
  }

  // --- what passes from module to module ---

  void chain() {
    begin();
    for (TreeLeaf& leaf : plan_.leaves) {
      if (error_) return;
      leaf.is_paired = target_.has_value();
      if (!leaf.node->on_place.empty() && !leaf.is_paired)
        complain(leaf.node->on_place,
                 "'on' has no meaning here: there are a source and a target only before a "
                 "transformer, with model.target_len set");
      if (leaf.node->kind == Kind::transformer) {
        transformer(leaf);
        continue;
      }
      if (leaf.node->on != TreeNode::On::target) pass(leaf, source_);
      if (target_ && leaf.node->on != TreeNode::On::source) pass(leaf, *target_);
      count(leaf);
    }
    if (target_ && !error_)
      complain(tree_.place, "model.target_len is set, but no transformer joins source and target");
    if (source_.ids && !error_) complain(tree_.place, "model.tree has no module that computes");
    plan_.out = source_.width;
    for (const TreeLeaf& leaf : plan_.leaves)
      if (leaf.is_paired && leaf.wrap != plan_.leaves.front().wrap)
        complain(leaf.node->kind_place,
                 "module '{}': is wrapped apart from {}, but what works on a source and a target "
                 "can only "
                 "be wrapped as one",
                 leaf.path, plan_.leaves.front().path);
  }

  void begin() {
    const auto* first = std::find_if(
        plan_.leaves.data(), plan_.leaves.data() + plan_.leaves.size(), [](auto& leaf) {
          return leaf.node->kind != Kind::buffer && leaf.node->kind != Kind::parameter;
        });
    if (first == plan_.leaves.data() + plan_.leaves.size())
      return complain(tree_.place, "model.tree has no module that computes");
    const TreeNode& node = *first->node;
    plan_.takes_ids = node.kind == Kind::embedding;
    source_ = {plan_.takes_ids, plan_.takes_ids ? 1 : node.in,
               std::max<std::int64_t>(1, batch_.positions)};
    if (node.in == 0)
      return complain(node.place,
                      "the tree begins with a module that does not say how wide its input is, "
                      "expected linear, embedding, a norm or a transformer");
    if (plan_.takes_ids && batch_.positions == 0)
      return complain(node.place,
                      "the tree begins with an embedding, but train.seq_len is not set: expected "
                      "the tokens of a sequence");
    plan_.is_sequence = plan_.takes_ids || batch_.positions > 1 || node.kind == Kind::transformer ||
                        node.kind == Kind::encoder_layer;
    plan_.in = source_.width;
    if (node.kind == Kind::batch_norm && plan_.is_sequence)
      return complain(node.place,
                      "the tree begins with a batch_norm of sequences, which does not say how "
                      "wide they are, expected it after another module");
    if (batch_.target > 0) target_ = Rows{source_.ids, source_.width, batch_.target};
  }

  double rows(const Rows& x) const {
    return static_cast<double>(batch_.sequences) * static_cast<double>(x.positions);
  }

  void makes(double elements) { plan_.widest = std::max(plan_.widest, elements); }

  void pass(TreeLeaf& leaf, Rows& x) {
    const TreeNode& node = *leaf.node;
    leaf.width = x.width;
    if (node.kind == Kind::embedding) {
      if (!x.ids)
        return complain(node.kind_place,
                        "module '{}': an embedding takes token ids, but gets {} features",
                        leaf.path, x.width);
      x = {false, node.out, x.positions};
      return makes(rows(x) * static_cast<double>(x.width));
    }
    if (x.ids && !(node.kind == Kind::buffer && !node.adds))
      return complain(node.kind_place,
                      "module '{}': token ids come in, expected an embedding before it", leaf.path);
    switch (node.kind) {
      case Kind::linear:
        matches(leaf, x.width);
        plan_.matmul_flops +=
            2 * rows(x) * static_cast<double>(node.in) * static_cast<double>(node.out);
        x.width = node.out;
        break;
      case Kind::layer_norm:
      case Kind::rms_norm: matches(leaf, x.width); break;
      case Kind::parameter:
        if (node.is_matmul)
          plan_.matmul_flops += 2 * rows(x) * static_cast<double>(product(node.shape));
        break;
      case Kind::batch_norm: batch_norm(leaf, x); break;
      case Kind::encoder_layer:
        matches(leaf, x.width);
        layers(node, x, x, 1, 0);
        break;
      case Kind::buffer:
        if (node.adds && node.elements != x.width)
          complain(node.kind_place,
                   "module '{}': a buffer of {} elements is added to rows of {}, expected as many",
                   leaf.path, node.elements, x.width);
        break;
      default: break;
    }
    makes(rows(x) * static_cast<double>(x.width));
  }

  void matches(const TreeLeaf& leaf, std::int64_t width) {
    if (leaf.node->in != width)
      complain(leaf.node->kind_place, "module '{}' takes {} features, but {} come in", leaf.path,
               leaf.node->in, width);
  }

  // torch.nn.BatchNorm1d counts dimension 1: of [rows, features] the features, of [positions,
  // sequences, features] the sequences.
  void batch_norm(const TreeLeaf& leaf, const Rows& x) {
    if (!plan_.is_sequence) return matches(leaf, x.width);
    if (leaf.node->in != batch_.sequences)
      complain(
          leaf.node->kind_place,
          "module '{}': batch_norm of {}, but dimension 1 of [positions, sequences, features] is "
          "train.micro_batch = {}",
          leaf.path, leaf.node->in, batch_.sequences);
  }

  void transformer(TreeLeaf& leaf) {
    const TreeNode& node = *leaf.node;
    leaf.is_paired = target_.has_value();
    if (target_ && node.decoder_layers == 0)
      return complain(node.kind_place,
                      "module '{}': a transformer without decoder layers takes no target, but "
                      "model.target_len is set",
                      leaf.path);
    if (!target_ && node.decoder_layers > 0)
      return complain(
          node.kind_place,
          "module '{}': a transformer's decoder takes a target, expected model.target_len",
          leaf.path);
    for (const Rows* x : {&source_, target_ ? &*target_ : &source_}) {
      if (x->ids)
        return complain(node.kind_place,
                        "module '{}': token ids come in, expected an embedding before it",
                        leaf.path);
      matches(leaf, x->width);
    }
    layers(node, source_, source_, node.encoder_layers, 0);
    if (target_) {
      layers(node, *target_, source_, 0, node.decoder_layers);
      source_ = *target_;
      target_.reset();
    }
    count(leaf);
    makes(rows(source_) * static_cast<double>(source_.width));
  }

  // Matmuls of encoder layers over x, or of decoder layers over x that attend to `memory`.
  void layers(const TreeNode& node, const Rows& x, const Rows& memory, std::int64_t encoders,
              std::int64_t decoders) {
    const auto d = static_cast<double>(node.in);
    const double ff = 4 * rows(x) * d * static_cast<double>(node.feedforward);
    const double self = 8 * rows(x) * d * d + 4 * rows(x) * static_cast<double>(x.positions) * d;
    const double cross = 4 * rows(x) * d * d + 4 * rows(memory) * d * d +
                         4 * rows(x) * static_cast<double>(memory.positions) * d;
    plan_.matmul_flops += static_cast<double>(encoders) * (self + ff) +
                          static_cast<double>(decoders) * (self + cross + ff);
    makes(rows(x) * static_cast<double>(std::max(3 * node.in, node.feedforward)));
    makes(rows(memory) * 2 * d);
  }

  void count(const TreeLeaf& leaf) {
    const TreeNode& node = *leaf.node;
    double size = 0;
    if (has_weight(node.kind)) {
      size = 1;
      for (const std::int64_t extent : weight_shape(node)) size *= static_cast<double>(extent);
    }
    if (node.kind == Kind::transformer || node.kind == Kind::encoder_layer) {
      const double d = static_cast<double>(node.in);
      size = static_cast<double>(node.encoder_layers + 2 * node.decoder_layers) *
             (8 * d * d + 2 * d * static_cast<double>(node.feedforward));
    }
    total_ += size;
    layers_ += node.encoder_layers + node.decoder_layers;
    if (layers_ > static_cast<std::int64_t>(kMostTreeModules))
      complain(node.kind_place, "module '{}': more than {} layers, expected fewer", leaf.path,
               kMostTreeModules);
    if (total_ > kMostParameters)
      complain(node.kind_place, "module '{}': more than ten trillion parameters, expected fewer",
               leaf.path);
  }

  // Of a leaf, without the weight that another one has.
  static std::int64_t parameters_of(const TreeLeaf& leaf) {
    const TreeNode& node = *leaf.node;
    const bool has_own_weight = leaf.tie.empty() || leaf.tie == weight_of(leaf);
    const std::int64_t d = node.in;
    switch (node.kind) {
      case Kind::linear: return (has_own_weight ? d * node.out : 0) + (node.bias ? node.out : 0);
      case Kind::embedding: return has_own_weight ? d * node.out : 0;
      case Kind::parameter: return has_own_weight ? product(node.shape) : 0;
      case Kind::rms_norm: return d;
      case Kind::layer_norm:
      case Kind::batch_norm: return 2 * d;
      case Kind::encoder_layer:
      case Kind::transformer: {
        const std::int64_t attention = 4 * d * d + 4 * d;
        const std::int64_t feedforward = 2 * d * node.feedforward + node.feedforward + d;
        const bool whole = node.kind == Kind::transformer;
        return node.encoder_layers * (attention + feedforward + 4 * d) +
               node.decoder_layers * (2 * attention + feedforward + 6 * d) + (whole ? 2 * d : 0) +
               (node.decoder_layers > 0 ? 2 * d : 0);
      }
      default: return 0;
    }
  }

  // --- tied weights ---

  void ties() {
    std::map<std::string, TreeLeaf*> by_path;
    std::vector<std::string_view> paths;
    for (TreeLeaf& leaf : plan_.leaves) {
      by_path.emplace(leaf.path, &leaf);
      if (has_weight(leaf.node->kind)) {
        by_path.emplace(weight_of(leaf), &leaf);
        paths.push_back(leaf.path);
      }
    }
    for (TreeLeaf& leaf : plan_.leaves) {
      const TreeLeaf* at = &leaf;
      for (std::size_t steps = 0; !at->node->tied.empty(); ++steps) {
        const auto found = by_path.find(at->node->tied);
        if (found == by_path.end() || !has_weight(found->second->node->kind))
          return complain(at->node->tied_place,
                          "module '{}': tied to '{}', which is no linear, embedding or parameter{}",
                          at->path, at->node->tied, did_you_mean(at->node->tied, paths));
        if (found->second == &leaf || steps > plan_.leaves.size())
          return complain(
              leaf.node->tied_place,
              "module '{}': tied to itself by way of '{}', expected one that is not tied",
              leaf.path, at->path);
        at = found->second;
      }
      if (at == &leaf) continue;
      const auto own = weight_shape(*leaf.node), other = weight_shape(*at->node);
      if (own != other)
        return complain(leaf.node->tied_place,
                        "module '{}': a weight of {} is tied to {}, which is {}", leaf.path,
                        fmt::join(own, " × "), at->path, fmt::join(other, " × "));
      leaf.tie = by_path.at(at->path)->tie = weight_of(*at);
    }
  }

  const ModuleTree& tree_;
  const TreeBatch& batch_;
  TreePlan plan_;
  Rows source_;
  std::optional<Rows> target_;
  std::map<std::string, std::uint32_t> units_;  // by name: the number of the mark
  std::optional<Error> error_;
  double total_ = 0;         // parameters
  std::int64_t layers_ = 0;  // of transformers
};

}  // namespace

Result<TreePlan> plan_tree(const ModuleTree& tree, const TreeBatch& batch) {
  return TreePlanner(tree, batch).plan();
}

std::string weight_of(const TreeLeaf& leaf) {
  return leaf.node->kind == Kind::parameter ? leaf.path : leaf.path + ".weight";
}

Status check_tied_wraps(const TreePlan& plan) {
  std::map<std::string_view, const TreeLeaf*> first;
  for (const TreeLeaf& leaf : plan.leaves) {
    if (leaf.tie.empty()) continue;
    const auto [found, is_new] = first.try_emplace(leaf.tie, &leaf);
    if (is_new || found->second->wrap == leaf.wrap) continue;
    const TreeLeaf& said = leaf.node->tied.empty() ? *found->second : leaf;
    return fail_at(
        said.node->tied_place,
        "modules '{}' and '{}' are tied but wrapped apart: FSDP expects a shared parameter in one "
        "wrapped module",
        found->second->path, leaf.path);
  }
  return {};
}

}  // namespace foregather::plan
