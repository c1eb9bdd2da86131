// The first page: what is open and what it says.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "gui/models/residuals.h"
#include "gui/models/session.h"

namespace foregather::gui {

/// A figure of each side; absent where a run has none.
struct Figure {
  enum class Unit : std::uint8_t { ns, bytes };
  std::string name;
  Unit unit = Unit::ns;
  std::array<std::optional<std::int64_t>, 2> value;
  std::optional<double> error() const;  ///< (first − second) / second
  std::string text(std::size_t side) const;
};

/// Step time, compute, communication, exposed communication and reserved memory (allocated where
/// reserved is not known): of the first pair where two runs are open, as `compare` has them; of one
/// run the times of its slowest rank and the memory of its largest, as `simulate` has them. What is
/// communication is not known of a timeline of several ranks that tells no collectives apart.
std::array<Figure, 5> five_figures(const Session& session);

/// The figures as a table, a column a side: name_ns or name_bytes, and numbers; empty where not
/// known.
std::string figures_csv(const Session& session);

/// About one run: "predicted by foregather 0.1.0", …: name and value.
std::vector<std::pair<std::string, std::string>> about(const Session& session, std::size_t side);

/// Something to know before believing the picture.
struct Badge {
  std::string text;                ///< "3 warnings"
  std::vector<std::string> lines;  ///< the list behind it
};
/// Out of memory, what the makers of the runs said of them, what they had to drop, ranks that stand
/// for others, steps that are not shown, what met nothing.
std::vector<Badge> badges(const Session& session);

}  // namespace foregather::gui
