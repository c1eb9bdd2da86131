// Backends by name.
#pragma once

#include <memory>
#include <string>

#include "core/base/result.h"
#include "runtime/device.h"

namespace foregather::runtime {

struct CloseBackend {
  void (*destroy)(Backend*) = nullptr;  ///< null: delete
  void operator()(Backend* backend) const {
    if (destroy != nullptr)
      destroy(backend);
    else
      delete backend;
  }
};
using BackendHandle = std::unique_ptr<Backend, CloseBackend>;

/// "host", or "cuda", whose library belongs to the program. Errors: an unknown
/// name; a plug-in that is not there, cannot be opened or is of another version, by its file's
/// name; a machine that lacks what the backend needs.
Result<BackendHandle> open_backend(const std::string& name);

/// Path of the backend's library (see own_library()); empty: it is not there.
std::string backend_plug_in(const std::string& name);

}  // namespace foregather::runtime
