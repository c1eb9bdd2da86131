#include "core/ir/device_order.h"

#include <algorithm>

namespace foregather {

DeviceOrder::DeviceOrder(std::size_t streams, std::size_t threads)
    : streams_(streams), width_(streams + threads), clocks_(width_ * width_) {}

void DeviceOrder::join(Clock clock, ConstClock other) {
  for (std::size_t i = 0; i < clock.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

void DeviceOrder::save(ConstClock clock, Saved& saved) {
  if (saved == 0) {
    saved_.resize(saved_.size() + width_);
    saved = static_cast<Saved>(saved_.size() / width_);
  }
  std::copy(clock.begin(), clock.end(), row(saved_, saved - 1).begin());
}

void DeviceOrder::meet() {
  for (std::size_t thread = 1; thread < width_ - streams_; ++thread)
    join(host(0), host(static_cast<std::uint32_t>(thread)));
  for (std::size_t thread = 1; thread < width_ - streams_; ++thread)
    join(host(static_cast<std::uint32_t>(thread)), host(0));
}

std::uint32_t DeviceOrder::launch(std::uint32_t thread, StreamId stream) {
  join(device(stream), host(thread));
  return ++device(stream)[stream.row()];
}

void DeviceOrder::record(std::uint32_t thread, StreamId stream, Saved& event) {
  save(device(stream), event);
  join(row(saved_, event - 1), host(thread));
}

void DeviceOrder::host_learns_all(std::uint32_t thread) {
  for (std::size_t stream = 0; stream < streams_; ++stream)
    host_learns_stream(thread, StreamId(stream));
}

}  // namespace foregather
