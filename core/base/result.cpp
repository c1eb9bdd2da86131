#include "core/base/result.h"

namespace foregather {

std::string Error::text() const { return place.empty() ? message : place + ": " + message; }

}  // namespace foregather
