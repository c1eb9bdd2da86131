// Work on other threads that hands its results to widgets.
#pragma once

#include <QObject>

#include "gui/models/latest_job.h"
#include "gui/models/loader.h"

namespace foregather::gui {

/// Posts to the thread of `owner`, which must outlive whoever posts. What is still to run when the
/// owner goes does not.
Post post_to(QObject* owner);

}  // namespace foregather::gui
