// Settings of the allocator that predictions replicate.
#pragma once

#include <string>

#include "core/alloc/config.h"

namespace foregather::tasks {

/// Errors: those of alloc::parse_alloc_conf; another backend than the native one.
inline Result<alloc::AllocConfig> parse_native_alloc_conf(const std::string& text) {
  auto config = alloc::parse_alloc_conf(text);
  if (config && !config->native_backend)
    return fail("'{}' names another backend, expected the native one", text);
  return config;
}

}  // namespace foregather::tasks
