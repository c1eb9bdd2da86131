#include "core/run/key.h"

#include <fmt/format.h>

namespace foregather::run {

std::string op_key(RunView run, OpRow row) {
  const OpRecord op = run.ops.at(row);
  const StepInfo& step = run.steps[op.step.row()];
  const std::string_view scope = run.text_of(op.scope);
  std::string key =
      fmt::format("r{}/s{}/m{}/{}/{}/{}/{}", run.classes[step.rank_class.row()].ranks.front(),
                  step.number, op.micro_batch, scope.empty() ? "-" : scope,
                  foregather::name(op.phase), foregather::name(op.kind), op.ordinal);
  if (op.communicator)
    key += fmt::format("@{}#{}", run.text_of(run.communicators[op.communicator.row()].name),
                       op.sequence);
  return key;
}

}  // namespace foregather::run
