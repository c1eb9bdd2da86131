#include "core/store/row_reader.h"

namespace foregather::store {

std::int64_t RowReader::within(std::int64_t value, std::int64_t least, std::int64_t most) {
  if (value >= least && value <= most) return value;
  ok_ = false;
  return least;
}

}  // namespace foregather::store
