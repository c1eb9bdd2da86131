// Keys of a config.json that no op follows.
#pragma once

#include "core/plan/config_file.h"

namespace foregather::plan {

/// Complains of a wrong type or an absurd value of the common ones: the file is then no config that
/// transformers would read, and what else it says is in doubt. Null is none.
void check_unread(const ConfigFile& file);

}  // namespace foregather::plan
