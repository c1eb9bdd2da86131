#include "core/run/sweep.h"

namespace foregather::run {

std::string_view name(PointStatus status) {
  switch (status) {
    case PointStatus::fits: return "fits";
    case PointStatus::out_of_memory: return "oom";
    case PointStatus::failed: return "error";
  }
  return "";
}

}  // namespace foregather::run
