// Which built-in machine has a GPU of that name.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace foregather::tasks {

/// By the name that the driver gives the GPU ("NVIDIA H100 80GB HBM3"), or that of a built-in
/// machine itself. Nothing: none of the built-in ones has it.
std::optional<std::string> hardware_of_device(std::string_view device);

}  // namespace foregather::tasks
