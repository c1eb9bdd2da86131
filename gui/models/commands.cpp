#include "gui/models/commands.h"

#include <algorithm>
#include <array>

namespace foregather::gui {
namespace {

using Id = CommandId;

constexpr std::array kCommands{
    CommandInfo{Id::open_files, "File", "Open files", "Ctrl+O"},
    CommandInfo{Id::open_recent, "File", "Open a recent file", "Ctrl+R"},
    CommandInfo{Id::export_picture, "File", "Save the picture as PNG or SVG", "Ctrl+E"},
    CommandInfo{Id::copy_table, "File", "Copy the table as CSV", "Ctrl+Shift+C"},
    CommandInfo{Id::close_window, "File", "Close", "Ctrl+Q"},
    CommandInfo{Id::show_summary, "Views", "Summary", "Ctrl+1"},
    CommandInfo{Id::show_timeline, "Views", "Timeline", "Ctrl+2"},
    CommandInfo{Id::show_residuals, "Views", "Residuals", "Ctrl+3"},
    CommandInfo{Id::show_sweep, "Views", "Sweep", "Ctrl+4"},
    CommandInfo{Id::show_segments, "Views", "Segments: addresses over time", "Ctrl+5"},
    CommandInfo{Id::cycle_sides, "Views", "Predicted, measured, or both", "V"},
    CommandInfo{Id::toggle_overlay, "Views", "One over the other, or apart", "O"},
    CommandInfo{Id::toggle_memory, "Views", "Memory below the timeline", "Shift+G"},
    CommandInfo{Id::toggle_causes, "Views", "Memory by cause, or as curves", "G"},
    CommandInfo{Id::toggle_path, "Views", "Critical path", "C"},
    CommandInfo{Id::toggle_theme, "Views", "Dark or light", "Ctrl+T"},
    CommandInfo{Id::show_knobs, "What if", "Knobs of the schedule", "K"},
    CommandInfo{Id::pin_baseline, "What if", "Pin baseline: compare with what is shown now", "B"},
    CommandInfo{Id::reset_knobs, "What if", "All knobs as the source has them", "Shift+K"},
    CommandInfo{Id::copy_command, "What if", "Copy as command line", "Ctrl+K"},
    CommandInfo{Id::zoom_in, "Moving", "Zoom in", "W; Ctrl++"},
    CommandInfo{Id::zoom_out, "Moving", "Zoom out", "S; Ctrl+-"},
    CommandInfo{Id::pan_left, "Moving", "Move left", "A; Left"},
    CommandInfo{Id::pan_right, "Moving", "Move right", "D; Right"},
    CommandInfo{Id::scroll_up, "Moving", "Scroll the lanes up", "Up; PgUp"},
    CommandInfo{Id::scroll_down, "Moving", "Scroll the lanes down", "Down; PgDown"},
    CommandInfo{Id::fit_selection, "Moving", "Zoom to the selection", "F"},
    CommandInfo{Id::fit_all, "Moving", "Show everything", "Shift+F; Home"},
    CommandInfo{Id::zoom_heights_in, "Moving", "Fewer addresses (segments)", "Shift+W"},
    CommandInfo{Id::zoom_heights_out, "Moving", "More addresses (segments)", "Shift+S"},
    CommandInfo{Id::go_back, "Moving", "Back to the view, order or filter before", "Backspace"},
    CommandInfo{Id::wheel_zoom, "Moving", "Zoom at the pointer", "Ctrl and wheel, or pinch", true},
    CommandInfo{Id::wheel_scroll, "Moving", "Scroll the lanes", "Wheel", true},
    CommandInfo{Id::wheel_pan, "Moving", "Move in time", "Shift and wheel", true},
    CommandInfo{Id::drag_pan, "Moving", "Move", "Shift and drag", true},
    CommandInfo{Id::drag_zoom, "Moving", "Zoom to what is dragged over", "Middle button and drag",
                true},
    CommandInfo{Id::next_residual, "Selecting", "Next largest residual", "N"},
    CommandInfo{Id::previous_residual, "Selecting", "Largest residual before", "Shift+N"},
    CommandInfo{Id::next_neighbour, "Selecting", "Next on the lane", "."},
    CommandInfo{Id::previous_neighbour, "Selecting", "The one before on the lane", ","},
    CommandInfo{Id::follow_back, "Selecting", "What held it back", "["},
    CommandInfo{Id::follow_forward, "Selecting", "What it held back", "]"},
    CommandInfo{Id::select_all, "Selecting", "Select all of the view", "Ctrl+A"},
    CommandInfo{Id::range_of_selection, "Selecting", "From the selected op to its range", "R"},
    CommandInfo{Id::clear_selection, "Selecting", "Select nothing", "Esc"},
    CommandInfo{Id::mark, "Selecting", "Mark the selection, or remove its mark", "M"},
    CommandInfo{Id::pin_lane, "Selecting", "Pin the lane of the selection on top", "P"},
    CommandInfo{Id::lane_up, "Selecting", "Move the lane of the selection up", "Shift+Up"},
    CommandInfo{Id::lane_down, "Selecting", "Move the lane of the selection down", "Shift+Down"},
    CommandInfo{Id::click_select, "Selecting", "Select", "Click", true},
    CommandInfo{Id::double_click_zoom, "Selecting", "Select and zoom to it", "Double click", true},
    CommandInfo{Id::drag_range, "Selecting", "Select a range, with totals", "Drag", true},
    CommandInfo{Id::sweep_point, "Selecting", "Point of a sweep: by time, by the front",
                "Left, Right; Up, Down", true},
    CommandInfo{Id::sweep_load, "Selecting", "Show the schedule of a sweep's point", "Enter", true},
    CommandInfo{Id::search, "Searching", "Search", "/; Ctrl+F"},
    CommandInfo{Id::next_result, "Searching", "Next result", "Enter; Return"},
    CommandInfo{Id::previous_result, "Searching", "Result before", "Shift+Enter; Shift+Return"},
    CommandInfo{Id::palette, "Searching", "All commands", "Ctrl+Shift+P"},
    CommandInfo{Id::help, "Searching", "This help", "?; F1"},
};

}  // namespace

std::span<const CommandInfo> commands() { return kCommands; }

const CommandInfo& info(CommandId id) {
  return *std::find_if(kCommands.begin(), kCommands.end(),
                       [id](const CommandInfo& command) { return command.id == id; });
}

}  // namespace foregather::gui
