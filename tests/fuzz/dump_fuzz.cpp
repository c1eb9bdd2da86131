// Any bytes as a schedule's dump. What is refused must be refused by a value; what is read, written
// and read again must be the same text, and validation must end.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "core/ir/dump.h"
#include "core/ir/validate.h"

using namespace foregather;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto graph = read_dump({reinterpret_cast<const char*>(data), size}, "input");
  if (!graph) return 0;
  (void)validate(*graph, 1);
  const std::string text = dump(*graph);
  const auto again = read_dump(text, "again");
  if (!again || dump(*again) != text) std::abort();
  return 0;
}
