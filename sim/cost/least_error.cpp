#include "sim/cost/least_error.h"

#include <algorithm>
#include <cstddef>
#include <vector>

namespace foregather::sim {

namespace {

constexpr double kFactor = 1.15;  // between neighbours of the scan
constexpr std::size_t kMostPoints = 400;
constexpr double kGolden = 0.6180339887498949;
constexpr int kSections = 40;

}  // namespace

double least_error(double low, double high, const std::function<double(double)>& error) {
  std::vector<double> points;
  for (double x = low; x < high && points.size() < kMostPoints; x *= kFactor) points.push_back(x);
  points.push_back(high);
  std::vector<double> errors;
  for (const double x : points) errors.push_back(error(x));
  const auto best =
      static_cast<std::size_t>(std::min_element(errors.begin(), errors.end()) - errors.begin());
  double left = points[best > 0 ? best - 1 : 0];
  double right = points[std::min(best + 1, points.size() - 1)];
  double a = right - kGolden * (right - left), b = left + kGolden * (right - left);
  double at_a = error(a), at_b = error(b);
  for (int i = 0; i < kSections; ++i) {
    if (at_a <= at_b) {
      right = b;
      b = a;
      at_b = at_a;
      a = right - kGolden * (right - left);
      at_a = error(a);
    } else {
      left = a;
      a = b;
      at_a = at_b;
      b = left + kGolden * (right - left);
      at_b = error(b);
    }
  }
  const double middle = (left + right) / 2;
  return error(middle) <= errors[best] ? middle : points[best];
}

}  // namespace foregather::sim
