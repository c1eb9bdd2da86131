// What the CUDA driver calls of the injection library: CUDA_INJECTION64_PATH.
#include <cstdlib>
#include <exception>

#include "profiler/cupti_session.h"
#include "profiler/recorder.h"

extern "C" __attribute__((visibility("default"))) int InitializeInjection(void);

/// Called at cuInit, before any context. 1: done; the driver goes on whatever comes back.
extern "C" int InitializeInjection(void) {
  using namespace foregather::profiler;
  try {
    Recorder* const recorder = Recorder::instance();
    if (recorder == nullptr || recorder->settings().host_only || !recorder->wants_device())
      return 1;
    if (CuptiSession* const session = CuptiSession::start(*recorder)) {
      recorder->set_device(session);
      // CUPTI takes itself down at the exit: this comes before, what start() registered after.
      std::atexit(Recorder::finish);
    }
  } catch (const std::exception&) {
    return 1;  // out of memory: the program itself matters more
  }
  return 1;
}
