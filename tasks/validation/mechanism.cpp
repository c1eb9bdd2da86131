#include "tasks/validation/mechanism.h"

#include <cmath>

namespace foregather::tasks {

std::string mechanism_of(const RowResult& result) {
  (void)result;
  return "";
}

}  // namespace foregather::tasks
