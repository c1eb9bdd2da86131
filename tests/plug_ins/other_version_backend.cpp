#include "runtime/device.h"

extern "C" __attribute__((visibility("default"))) const foregather::runtime::BackendPlugin*
foregather_backend() {
  static constexpr foregather::runtime::BackendPlugin plug_in{
      foregather::runtime::kBackendVersion + 1, nullptr, nullptr};
  return &plug_in;
}
