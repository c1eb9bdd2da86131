// Work on other threads that hands its results to widgets.
#pragma once

#include <QObject>

#include "gui/models/latest_job.h"
#include "gui/models/loader.h"

namespace foregather::gui {

/// Posts to the thread of `owner`, which must outlive whoever posts. What is still to run when the
/// owner goes does not.
inline Post post_to(QObject* owner) {
  return [owner](std::function<void()> what) {
    QMetaObject::invokeMethod(owner, std::move(what), Qt::QueuedConnection);
  };
}

}  // namespace foregather::gui
