// A column that many runs have nothing in.
#pragma once

#include <cstddef>
#include <vector>

namespace foregather::run {

/// Values by row, those of most runs all Value(): then it takes no room.
template <class Value>
class RareColumn {
 public:
  std::size_t size() const { return size_; }
  Value operator[](std::size_t row) const { return values_.empty() ? Value() : values_[row]; }
  /// `row` is below size().
  void set(std::size_t row, Value value) {
    if (values_.empty() && value == Value()) return;
    values_.resize(size_);
    values_[row] = value;
  }
  void push_back(Value value) {
    ++size_;
    if (!values_.empty() || value != Value()) set(size_ - 1, value);
  }
  /// New rows are Value().
  void resize(std::size_t rows) {
    size_ = rows;
    if (!values_.empty()) values_.resize(rows);
  }

 private:
  std::size_t size_ = 0;
  std::vector<Value> values_;  ///< empty: all are Value()
};

}  // namespace foregather::run
