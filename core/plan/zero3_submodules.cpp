#include "core/plan/zero3_submodules.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace foregather::plan {

namespace {

/// "attn.wq" of "attn.wq.weight", "" of "weight".
std::string_view parent_of(std::string_view path) {
  const auto dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

bool is_within(std::string_view outer, std::string_view inner) {
  return outer.empty() || inner == outer ||
         (inner.starts_with(outer) && inner[outer.size()] == '.');
}

/// Which ops of a pass belong to a submodule's subtree.
class Membership {
 public:
  Membership(const Tape& tape, const Recipe& recipe, const Submodule& submodule) : recipe_(recipe) {
    for (const std::string& scope : tape.scopes)
      scopes_.push_back(is_within(submodule.path, scope));
    for (const Parameter& parameter : tape.parameters)
      parameters_.push_back(is_within(submodule.path, parent_of(parameter.name)));
  }

  bool has(const RecipePass& pass, const RecipeOp& op) const {
    if (scopes_[op.scope_index]) return true;
    for (std::uint32_t a = op.accesses.first; a < op.accesses.end(); ++a)
      if (is_own(pass.accesses[a].place)) return true;
    return false;
  }

 private:
  bool is_own(std::uint32_t place) const {
    const std::uint32_t gradient = place - recipe_.first_gradient;
    if (gradient < recipe_.parameters) return parameters_[gradient];
    const std::uint32_t parameter = place - recipe_.parameter(0);
    return parameter < recipe_.parameters && parameters_[parameter];
  }

  const Recipe& recipe_;
  std::vector<bool> scopes_;      // by scope of the tape
  std::vector<bool> parameters_;  // by parameter
};

}  // namespace

std::vector<Submodule> submodules_of(const Tape& tape, bool is_root) {
  std::set<std::string_view> paths{""};
  const auto add = [&](std::string_view path) {
    for (; !path.empty(); path = parent_of(path)) paths.insert(path);
  };
  for (const std::string& scope : tape.scopes)
    if (scope != "loss") add(scope);
  for (const Parameter& parameter : tape.parameters) add(parent_of(parameter.name));
  std::vector<Submodule> submodules;  // a path comes after those that contain it
  for (const std::string_view path : paths) {
    Submodule& submodule = submodules.emplace_back();
    submodule.path = path;
    for (ParameterIndex p = 0; p < tape.parameters.size(); ++p)
      if (parent_of(tape.parameters[p].name) == path) submodule.parameters.push_back(p);
  }
  if (is_root && submodules.front().parameters.empty()) submodules.erase(submodules.begin());
  return submodules;
}

std::vector<SubmoduleSpan> spans_of(const Tape& tape, const std::vector<Submodule>& submodules,
                                    const Recipe& recipe) {
  std::vector<Membership> members;
  members.reserve(submodules.size());
  for (const Submodule& submodule : submodules) members.emplace_back(tape, recipe, submodule);
  const bool stops_early = recipe.key.policy != SavePolicy::whole;
  std::vector<SubmoduleSpan> spans;
  const auto add = [&](const RecipePass& pass, Phase phase) {
    std::uint32_t end = 0;
    for (std::uint32_t i = 0; i < pass.ops.size(); ++i)
      if (pass.ops[i].phase == phase) end = i + 1;
    for (std::uint32_t s = 0; s < submodules.size(); ++s) {
      bool found = false;
      SubmoduleSpan span{s, phase, 0, 0, false};
      for (std::uint32_t i = 0; i < end; ++i) {
        if (pass.ops[i].phase != phase || !members[s].has(pass, pass.ops[i])) continue;
        if (!found) span.first = i;
        found = true;
        span.last = i;
      }
      if (!found) continue;
      span.is_cut_off = (phase == Phase::recompute && stops_early && span.last + 1 == end) ||
                        (phase == Phase::backward && !tape.has_input_grad);
      spans.push_back(span);
    }
  };
  add(recipe.forward, Phase::forward);
  add(recipe.backward, Phase::recompute);
  add(recipe.backward, Phase::backward);
  return spans;
}

}  // namespace foregather::plan
