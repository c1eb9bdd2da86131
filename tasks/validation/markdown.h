// Figures and tables of the report for people.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace foregather::tasks {

/// "9.5 %" of 0.095, "–" where there is none.
std::string percent(std::optional<double> share);
/// "+9.5 %".
std::string signed_percent(std::optional<double> share);
/// "3 of 4", "–" of none.
std::string n_of_m(std::size_t n, std::size_t m);

/// Lines of a table. `align` has 'l' or 'r' for each column, the last one for all that follow.
std::string markdown_table(const std::vector<std::string>& heads,
                           const std::vector<std::vector<std::string>>& rows,
                           std::string_view align = "lr");

}  // namespace foregather::tasks
