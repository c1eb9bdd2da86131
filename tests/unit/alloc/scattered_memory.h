// Device memory whose addresses are in no order, as those of a driver are.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <vector>

#include "core/alloc/device_memory.h"

namespace foregather::alloc::test {

/// Segments lie beside others or anywhere; addresses are used again. Deterministic by its seed.
class ScatteredMemory final : public DeviceMemory {
 public:
  ScatteredMemory(Bytes capacity, std::uint32_t seed) : capacity_(capacity), random_(seed) {}

  Bytes total() const override { return kTotal; }
  Bytes available() const override { return capacity_ - used_; }
  std::optional<Address> allocate(Bytes size, StreamId) override {
    if (size > available()) return std::nullopt;
    Address address = 0;
    do {
      address = segments_.empty() || random_() % 2 == 0 ? anywhere() : beside_another();
    } while (!is_free(address, size));
    segments_.emplace(address, size);
    used_ += size;
    return address;
  }
  void release(Address address, Bytes size) override {
    segments_.erase(address);
    used_ -= size;
  }
  std::optional<Address> reserve(Bytes, StreamId) override {
    Address address = 0;
    do {
      address = kArenas + static_cast<Address>(random_() % 16) * (kTotal / 8 * 9);
    } while (arenas_.contains(address));
    arenas_.emplace(address, 0);
    return address;
  }
  void unreserve(Address address, Bytes) override { arenas_.erase(address); }
  bool map(Address, Bytes size, Bytes) override {
    if (size > available()) return false;
    used_ += size;
    return true;
  }
  void unmap(Address, Bytes size) override { used_ -= size; }

 private:
  static constexpr Bytes kTotal = 16 * GiB;
  static constexpr Address kBase = Address{1} << 40;
  static constexpr Address kArenas = Address{1} << 46;

  Address anywhere() { return kBase + static_cast<Address>(random_() % 4096) * GiB; }
  Address beside_another() {
    auto segment = segments_.begin();
    std::advance(segment, random_() % segments_.size());
    return segment->first + segment->second;
  }
  bool is_free(Address address, Bytes size) const {
    const auto after = segments_.lower_bound(address);
    if (after != segments_.end() && after->first < address + size) return false;
    if (after == segments_.begin()) return true;
    const auto before = std::prev(after);
    return before->first + before->second <= address;
  }

  Bytes capacity_;
  Bytes used_ = 0;
  std::mt19937 random_;
  std::map<Address, Bytes> segments_;
  std::map<Address, Bytes> arenas_;
};

}  // namespace foregather::alloc::test
