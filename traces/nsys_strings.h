// The texts of an Nsight Systems export by their ids.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/dense_ids.h"
#include "core/base/strings.h"
#include "traces/foreign_sqlite.h"

namespace foregather::traces {

/// StringIds. Only what is asked for gets into the recording's strings.
class NsysStrings {
 public:
  /// An export without the table has no texts.
  static Result<NsysStrings> read(const ForeignDatabase& database);

  /// Absent: the id has no text.
  StringId intern(std::int64_t id, StringTable& into,
                  std::string_view (*shorten)(std::string_view));
  /// Ids asked for that have no text, each time counted.
  std::int64_t missing() const { return missing_; }

 private:
  DenseIds ids_;
  StringTable all_;
  std::vector<StringId> text_;  // by dense id, of all_; absent: asked for and not there
  std::vector<StringId> used_;  // by dense id, of the recording; absent: not asked for yet
  std::int64_t missing_ = 0;
};

}  // namespace foregather::traces
