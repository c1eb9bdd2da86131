// Archives written, read again. Reading those of other tools: unpack_test.cpp.
#include "traces/tar.h"

#include <catch2/catch.hpp>

#include "traces/text_source.h"

using namespace foregather;

TEST_CASE("tar: what is written is read again") {
  std::string archive;
  const std::string contents[] = {"hello", std::string(traces::kTarBlock, 'x'), ""};
  for (const std::string& content : contents) {
    const auto header = traces::tar_header({"folder/file", static_cast<Bytes>(content.size())});
    REQUIRE(header);
    archive += *header + content;
    archive += traces::tar_padding(static_cast<Bytes>(content.size()));
    CHECK(archive.size() % traces::kTarBlock == 0);
  }
  archive += traces::tar_end();
  CHECK(archive.size() == 7 * traces::kTarBlock);
  CHECK(traces::is_tar(archive));
  std::size_t n = 0;
  const auto source = traces::text_of(archive);
  REQUIRE(traces::visit_tar(*source, "x.tar",
                            [&](const traces::TarMember& member, traces::TextSource& text) {
                              CHECK(member.name == "folder/file");
                              std::string content(static_cast<std::size_t>(member.bytes), ' ');
                              CHECK(text.read(content));
                              CHECK(content == contents[n++]);
                              return Status{};
                            }));
  CHECK(n == 3);
}

TEST_CASE("tar headers: what they cannot hold is an error") {
  CHECK_FALSE(traces::tar_header({"", 1}));
  CHECK_FALSE(traces::tar_header({std::string(100, 'x'), 1}));
  CHECK(traces::tar_header({std::string(99, 'x'), 1}));
  CHECK(traces::tar_header({"x", (Bytes{1} << 33) - 1}));
  CHECK_FALSE(traces::tar_header({"x", Bytes{1} << 33}));
}
