// What a loop's variables hold of the model's outputs beyond the backward of what made them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/plan/lowering.h"
#include "core/plan/module_writer.h"

namespace foregather::plan {

/// `outputs = model(batch)` gives the old outputs up when the new ones are there. So what a module
/// returns beside its output (HeldOutputs::cache: logits, keys and values of a transformers model,
/// whose call includes the loss) outlives the step: its memory is handed to a second storage when
/// the module's backward is over, and freed when the next call returns. Logits alone are freed when
/// the backward of all modules is over: most loops compute the loss themselves, and have given the
/// old ones up by then. The hand-over frees and allocates at once; the second storage need not get
/// the same place.
///
/// The first call finds no cache: there section first has delays of nothing where body frees.
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
  /// On the main thread, after the backward of all modules.
  void backward_over();
  /// The main thread's actions of section body are those of first, moved by `shift`.
  void step_copied(std::uint32_t shift);

 private:
  struct Held {
    std::uint32_t module = 0;
    Buffer buffer;
  };

  Lowering& lowering_;
  std::vector<Held> held_;  ///< by module
  bool until_next_call_;    ///< else: to the end of the backward
  bool has_been_called_ = false;
  std::uint32_t places_ = 0;  ///< in section first: the position of the first delay
};

}  // namespace foregather::plan
