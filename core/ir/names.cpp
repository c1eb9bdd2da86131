#include "core/ir/names.h"

#include <array>

#include "core/ir/find_name.h"

namespace foregather {
namespace {

using namespace std::string_view_literals;

constexpr std::array kActions{"launch"sv,
                              "alloc"sv,
                              "free"sv,
                              "release"sv,
                              "record_stream"sv,
                              "record"sv,
                              "wait"sv,
                              "host_wait_event"sv,
                              "host_wait_stream"sv,
                              "host_wait_device"sv,
                              "host_wait_action"sv,
                              "host_delay"sv,
                              "empty_cache"sv,
                              "mark"sv};
constexpr std::array kSectionNames{"init"sv, "first"sv, "body"sv};
constexpr std::array kReshards{"never"sv, "after_forward"sv, "after_backward"sv};

}  // namespace

std::string_view name(ActionKind kind) { return kActions[static_cast<std::size_t>(kind)]; }
std::string_view name(Section section) { return kSectionNames[static_cast<std::size_t>(section)]; }
std::string_view name(Reshard reshard) { return kReshards[static_cast<std::size_t>(reshard)]; }

template <>
std::optional<ActionKind> parse(std::string_view text) {
  return find_name<ActionKind>(kActions, text);
}
template <>
std::optional<Section> parse(std::string_view text) {
  return find_name<Section>(kSectionNames, text);
}
template <>
std::optional<Reshard> parse(std::string_view text) {
  return find_name<Reshard>(kReshards, text);
}

}  // namespace foregather
