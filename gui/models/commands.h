// Everything that a user can do, in one table: shortcuts, the help and the palette come from it.
#pragma once

#include <span>
#include <string_view>

namespace foregather::gui {

enum class CommandId : unsigned char {
  open_files,
  open_recent,
  export_picture,
  copy_table,
  close_window,
  show_summary,
  show_timeline,
  show_residuals,
  show_sweep,
  show_segments,
  zoom_in,
  zoom_out,
  pan_left,
  pan_right,
  scroll_up,
  scroll_down,
  fit_selection,
  fit_all,
  zoom_heights_in,
  zoom_heights_out,
  go_back,
  cycle_sides,
  toggle_overlay,
  toggle_memory,
  toggle_causes,
  toggle_path,
  toggle_theme,
  show_knobs,
  pin_baseline,
  reset_knobs,
  copy_command,
  next_residual,
  previous_residual,
  next_neighbour,
  previous_neighbour,
  follow_back,
  follow_forward,
  select_all,
  range_of_selection,
  clear_selection,
  search,
  next_result,
  previous_result,
  mark,
  pin_lane,
  lane_up,
  lane_down,
  palette,
  help,
  // Gestures of the mouse: for the help alone.
  wheel_zoom,
  wheel_scroll,
  wheel_pan,
  drag_range,
  sweep_point,
  sweep_load,
  drag_pan,
  drag_zoom,
  click_select,
  double_click_zoom,
};

struct CommandInfo {
  CommandId id;
  std::string_view group, title;
  std::string_view keys;  ///< as QKeySequence reads them, several with "; "; of a gesture in words
  bool is_gesture = false;
};

/// In the order of the help.
std::span<const CommandInfo> commands();
const CommandInfo& info(CommandId id);

}  // namespace foregather::gui
