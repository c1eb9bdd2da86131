// SHA-256 (FIPS 180-4), for digests that others compute too. Not for secrets.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

namespace foregather {

/// Takes bytes in pieces; the digest is that of all of them together.
class Sha256 {
 public:
  void update(std::string_view bytes);
  /// 64 hexadecimal digits. Nothing may be added afterwards.
  std::string finish();

 private:
  static constexpr std::size_t kBlock = 64;
  void compress(const unsigned char* block);

  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                      0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, kBlock> pending_{};
  std::uint64_t length_ = 0;  ///< bytes so far
};

}  // namespace foregather
