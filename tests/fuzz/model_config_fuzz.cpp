// Any bytes as a Hugging Face config.json. What is refused must be refused by a value, and what is
// read must be a model whose parameters can be counted.
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "core/plan/model.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const int file = ::memfd_create("config", MFD_CLOEXEC);
  if (file < 0 || ::write(file, data, size) != static_cast<ssize_t>(size)) std::abort();
  const auto config = plan::read_model_config("/proc/self/fd/" + std::to_string(file));
  ::close(file);
  if (!config) return 0;
  constexpr std::int64_t kMostLayers = 64;  // more only cost time
  if (config->layers > kMostLayers) return 0;
  if (plan::build_model(*config, plan::Train()).parameters < 0) std::abort();
  return 0;
}
