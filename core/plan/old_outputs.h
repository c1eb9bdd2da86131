// What a loop still holds of the call before while the model runs again.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/module_writer.h"

namespace foregather::plan {

/// `outputs = model(batch)` gives the old outputs up when the new ones are there. So what a module
/// returns beside its output (HeldOutputs::cache: logits, keys and values of a transformers model,
/// whose call includes the loss) outlives the step: its memory is handed to a second storage when
/// the module's backward is over, and freed when the next call returns. The hand-over frees and
/// allocates at once; the second storage need not get the same place.
///
/// The first call finds nothing: there section first has delays of nothing where body frees.
///
/// Left out for DeepCompile, whose passes write one graph into both sections.
class OldOutputs {
 public:
  /// Makes the second storages. `lowering` outlives it.
  OldOutputs(Lowering& lowering, const ModuleWriter& modules);

  /// On the main thread, after the forward of all modules.
  void call_returned();
  /// On the autograd thread, right after the module's backward.
  void backward_ended(std::uint32_t module);
  /// The main thread's actions of section body are those of first, moved by `shift`.
  void step_copied(std::uint32_t shift);

 private:
  struct Held {
    std::uint32_t module = 0;
    Buffer buffer;
  };

  Lowering& lowering_;
  std::vector<Held> held_;  ///< by module
  bool has_been_called_ = false;
  std::uint32_t places_ = 0;  ///< in section first: the position of the first delay
};

}  // namespace foregather::plan
