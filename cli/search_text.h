// A search's answer as text.
#pragma once

#include <string>

#include "tasks/search.h"

namespace foregather::cli {

std::string search_text(const tasks::SearchReport& report);

}  // namespace foregather::cli
