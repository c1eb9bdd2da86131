#include "traces/json_window.h"

namespace foregather::traces {

std::string_view key_of(simdjson::ondemand::field& field) {
  const char* const begin = field.key().raw();
  const char* end = begin;
  while (*end != '"' && *end != '\\') ++end;
  return *end == '"' ? std::string_view(begin, static_cast<std::size_t>(end - begin)) : "";
}

}  // namespace foregather::traces
