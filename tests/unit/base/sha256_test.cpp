#include <string>
#include <catch2/catch.hpp>

#include "core/base/sha256.h"

namespace foregather {
namespace {

std::string digest(std::string_view text) {
  Sha256 sha;
  sha.update(text);
  return sha.finish();
}

}  // namespace

// The examples of FIPS 180-4's test vectors.
TEST_CASE("SHA-256 of known texts") {
  CHECK(digest("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(digest("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(digest("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(digest(std::string(1'000'000, 'a')) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 in pieces is that of the whole") {
  const std::string text(300, 'x');
  for (const std::size_t piece : {1, 3, 55, 56, 63, 64, 65, 128, 299}) {
    Sha256 sha;
    for (std::size_t at = 0; at < text.size(); at += piece)
      sha.update(std::string_view(text).substr(at, piece));
    CHECK(sha.finish() == digest(text));
  }
}

}  // namespace foregather
