#pragma once

namespace foregather::gui {

inline constexpr int kPatience = 60'000;  ///< ms that a test waits for what other threads do

}  // namespace foregather::gui
