#include "core/run/enums.h"

#include <array>

namespace foregather::run {
namespace {

using namespace std::string_view_literals;

constexpr std::array kRunKinds{"predicted"sv, "measured"sv};
constexpr std::array kReasons{"start"sv,        "host"sv,       "stream"sv,    "event"sv,
                              "communicator"sv, "rendezvous"sv, "dependency"sv};
constexpr std::array kStepKinds{"first"sv, "steady"sv, "other"sv};
constexpr std::array kMatchLevelNames{"op"sv, "scope_kind"sv, "scope_phase"sv, "phase"sv};

}  // namespace

std::string_view name(RunKind kind) { return kRunKinds[static_cast<std::size_t>(kind)]; }
std::string_view name(BoundReason reason) { return kReasons[static_cast<std::size_t>(reason)]; }
std::string_view name(StepKind kind) { return kStepKinds[static_cast<std::size_t>(kind)]; }
std::string_view name(MatchLevel level) {
  return kMatchLevelNames[static_cast<std::size_t>(level)];
}

}  // namespace foregather::run
