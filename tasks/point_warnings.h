// What is warned of at the points of a sweep, each text once.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace foregather::tasks {

/// Counts points by text. Keeps the first texts in order of the alphabet, so that what it says
/// depends on the points alone, in whichever order they come.
class PointWarnings {
 public:
  /// The warnings of one more point, which are no longer needed.
  void add(std::vector<std::string> warnings);
  /// "3 of 16 points: TEXT", and at last how many more there are of other texts.
  std::vector<std::string> texts() const;

 private:
  std::map<std::string, std::int64_t> points_;  ///< by text
  std::int64_t all_ = 0, warnings_ = 0;
};

}  // namespace foregather::tasks
