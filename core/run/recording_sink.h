// Where a run goes while it happens.
#pragma once

#include "core/base/result.h"
#include "core/run/run.h"

namespace foregather::run {

/// Takes rows as they come: those of the steps of several ranks in turns. What was committed stays,
/// whatever becomes of the process. One thread.
class RecordingSink : public RunSink {
 public:
  /// The step as it is now known.
  virtual void change(StepRow step, const StepInfo& info) = 0;
  /// Everything added so far is in the file. Errors of the adds before show here.
  virtual Status commit() = 0;
};

}  // namespace foregather::run
