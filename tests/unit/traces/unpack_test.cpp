// Packed texts and archives, made here.
#include <catch2/catch.hpp>
#include <fmt/format.h>
#include <zlib.h>
#include <zstd.h>

#include "tests/support/scratch.h"
#include "traces/read_all.h"
#include "traces/tar.h"
#include "traces/text_source.h"
#include "traces/unpack.h"

using namespace foregather;
using namespace foregather::traces;

namespace {

std::string gzip(std::string_view text) {
  z_stream z{};
  REQUIRE(deflateInit2(&z, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(deflateBound(&z, text.size()) + 64, '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(packed.data());
  z.avail_out = static_cast<uInt>(packed.size());
  REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
  packed.resize(z.total_out);
  deflateEnd(&z);
  return packed;
}

std::string zstd(std::string_view text) {
  std::string packed(ZSTD_compressBound(text.size()), '\0');
  ZSTD_CCtx* const context = ZSTD_createCCtx();
  ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  packed.resize(ZSTD_compress2(context, packed.data(), packed.size(), text.data(), text.size()));
  ZSTD_freeCCtx(context);
  return packed;
}

std::string numbers() {
  std::string text;
  for (int i = 0; i < 300000; ++i) text += std::to_string(i) + "\n";
  return text;
}

std::string header(std::string_view name, std::size_t bytes, char type, bool is_ustar = true) {
  std::string block(kTarBlock, '\0');
  name.copy(block.data(), 100);
  fmt::format("{:07o}", 0644).copy(&block[100], 7);
  fmt::format("{:011o}", bytes).copy(&block[124], 11);
  block[156] = type;
  if (is_ustar) std::string_view("ustar\00000", 8).copy(&block[257], 8);
  std::fill_n(&block[148], 8, ' ');
  unsigned sum = 0;
  for (const char c : block) sum += static_cast<unsigned char>(c);
  fmt::format("{:06o}", sum).copy(&block[148], 6);
  block[154] = '\0';
  return block;
}

std::string member(std::string_view name, std::string_view text, char type = '0') {
  std::string bytes = header(name, text.size(), type) + std::string(text);
  bytes.resize((bytes.size() + kTarBlock - 1) / kTarBlock * kTarBlock);
  return bytes;
}

const std::string kTarEnd(2 * kTarBlock, '\0');

struct Visited {
  Status status;
  std::vector<std::pair<std::string, std::string>> files;  // name behind "!", text
};

Visited visit(const std::string& path, bool reads = true) {
  Visited visited;
  visited.status = visit_texts(path, [&](const TextMember& member, TextSource& text) -> Status {
    std::string content;
    if (reads) {
      auto all = read_all(text, member.name, GiB);
      if (!all) return tl::unexpected(all.error());
      content = std::move(*all);
    }
    const auto bang = member.name.find('!');
    visited.files.emplace_back(bang == std::string::npos ? "" : member.name.substr(bang + 1),
                               content);
    return {};
  });
  return visited;
}

using Files = std::vector<std::pair<std::string, std::string>>;

}  // namespace

TEST_CASE("unpack: plain, gzip and zstd are told by their first bytes") {
  const test::Scratch folder;
  const std::string text = numbers();
  for (const std::string& bytes : {text, gzip(text), zstd(text)}) {
    const Visited visited = visit(folder.write("any.name", bytes));
    REQUIRE(visited.status);
    CHECK(visited.files == Files{{"", text}});
  }
  CHECK(visit(folder.write("empty", "")).files == Files{{"", ""}});
}

TEST_CASE("unpack: members of an archive may be packed themselves") {
  const test::Scratch folder;
  const std::string text = numbers();
  const std::string archive = member("a", text) + member("b.gz", gzip(text)) +
                              member("c.zst", zstd(text)) + member("d", "x") + kTarEnd;
  for (const std::string& bytes : {archive, gzip(archive)})
    CHECK(visit(folder.write("t.tar", bytes)).files ==
          Files{{"a", text}, {"b.gz", text}, {"c.zst", text}, {"d", "x"}});
}

TEST_CASE("unpack: several gzip members or zstd frames are one text") {
  const test::Scratch folder;
  const std::string text = numbers();
  const auto joined = [&](const std::string& bytes) {
    return visit(folder.write("x", bytes)).files;
  };
  CHECK(joined(gzip("a") + gzip(text) + gzip("") + gzip("b")) == Files{{"", "a" + text + "b"}});
  CHECK(joined(zstd("a") + zstd(text) + zstd("b")) == Files{{"", "a" + text + "b"}});
  CHECK(joined(gzip("a") + std::string(100, '\0')) == Files{{"", "a"}});
}

TEST_CASE("unpack: packed data that are cut or damaged are errors with the path") {
  const test::Scratch folder;
  const std::string text = numbers();
  for (const auto& [name, packed] :
       {std::pair("gzip", gzip(text)), std::pair("zstd", zstd(text))}) {
    for (const std::size_t left : {packed.size() - 1, packed.size() / 2, std::size_t{20}}) {
      const std::string path = folder.write("cut", packed.substr(0, left));
      const Visited cut = visit(path);
      REQUIRE_FALSE(cut.status);
      CHECK(cut.status.error().text() ==
            fmt::format("{}: ends inside its {} data, expected all of it", path, name));
    }
    std::string damaged = packed;
    for (std::size_t i = damaged.size() / 2; i < damaged.size() / 2 + 40; ++i) damaged[i] ^= '\x5a';
    const Visited bad = visit(folder.write("bad", damaged));
    REQUIRE_FALSE(bad.status);
    CHECK_THAT(bad.status.error().text(),
               Catch::Contains(fmt::format("has damaged {} data", name)));
  }
}

TEST_CASE("unpack: read_all stops at its limit, however small the packed file is") {
  const std::string packed = gzip(std::string(32 << 20, '\0'));
  CHECK(packed.size() < 40000);
  const auto text = ungzip(text_of(packed), "bomb.gz");
  const auto all = read_all(*text, "bomb.gz", 8 * MiB);
  REQUIRE_FALSE(all);
  CHECK(all.error().text() == "bomb.gz: has more than 8 MiB, expected less");
}

TEST_CASE("unpack: an archive's members, long names, and what is no file") {
  const test::Scratch folder;
  const std::string longest = std::string(150, 'd') + "/" + std::string(120, 'f') + ".json";
  const std::string record = "path=" + longest + "\n";
  const std::string pax = fmt::format("{} {}", record.size() + 4, record);
  REQUIRE(pax.size() == record.size() + 4);
  const std::string archive = member("a.json", "first") + member("folder/", "", '5') +
                              member("././@LongLink", longest + '\0', 'L') +
                              member("cut name", "gnu") + member("PaxHeaders/x", pax, 'x') +
                              member("cut name", std::string(700, 'p')) + member("link", "", '2') +
                              member("last", "", '0') + kTarEnd;
  const Files expected{
      {"a.json", "first"}, {longest, "gnu"}, {longest, std::string(700, 'p')}, {"last", ""}};
  for (const std::string& bytes : {archive, gzip(archive), zstd(archive)}) {
    const Visited visited = visit(folder.write("x.tar", bytes));
    REQUIRE(visited.status);
    CHECK(visited.files == expected);
  }
  const Visited unread = visit(folder.path("x.tar"), false);
  REQUIRE(unread.status);
  CHECK(unread.files.size() == 4);
}

TEST_CASE("unpack: sizes in bytes instead of digits, and pax headers that say something else") {
  const test::Scratch folder;
  const auto with_size = [](std::string block, std::uint64_t size) {
    for (std::size_t i = 0; i < 12; ++i) {
      block[135 - i] = static_cast<char>(size & 0xffU);
      size >>= 8U;
    }
    block[124] = static_cast<char>(0x80);
    std::fill_n(&block[148], 8, ' ');
    unsigned sum = 0;
    for (const char c : block) sum += static_cast<unsigned char>(c);
    fmt::format("{:06o}", sum).copy(&block[148], 6);
    block[154] = '\0';
    return block;
  };
  const std::string text(300, 't'), padding(kTarBlock - 300, '\0');
  const std::string time = "20 mtime=1700000000\n", path = "11 path=in\n";
  REQUIRE(time.size() == 20);
  REQUIRE(path.size() == 11);
  const std::string archive = with_size(header("a", 0, '0'), 300) + text + padding +
                              member("pax", time, 'x') + member("b", "2") +
                              member("pax", time + path, 'x') + member("c", "3") + kTarEnd;
  const Visited visited = visit(folder.write("x.tar", archive));
  REQUIRE(visited.status);
  CHECK(visited.files == Files{{"a", text}, {"b", "2"}, {"in", "3"}});
  const std::string huge = with_size(header("a", 0, '0'), std::uint64_t{1} << 63U);
  CHECK(visit(folder.write("y.tar", huge + kTarEnd)).status.error().message ==
        "has a damaged tar header");
}

TEST_CASE("unpack: FILE!MEMBER is one of an archive") {
  const test::Scratch folder;
  const std::string path =
      folder.write("x.tgz", gzip(member("a", "1") + member("b/c", "2") + kTarEnd));
  CHECK(visit(path + "!b/c").files == Files{{"b/c", "2"}});
  const Visited absent = visit(path + "!d");
  REQUIRE_FALSE(absent.status);
  CHECK(absent.status.error().text() == path + "!d: is not in the archive");
  const std::string plain = folder.write("plain", "text");
  CHECK(visit(plain + "!a").status.error().message == "is in no archive: " + plain + " is not one");
  CHECK(visit(folder.write("wow!", "name with a bang")).files == Files{{"", "name with a bang"}});
}

TEST_CASE("unpack: archives that are cut, damaged or empty") {
  const test::Scratch folder;
  const std::string archive = member("a", std::string(1000, 'x')) + member("b", "y") + kTarEnd;
  const auto fault = [&](const std::string& bytes, bool reads) {
    const Visited visited = visit(folder.write("x.tar", bytes), reads);
    return visited.status ? "" : visited.status.error().message;
  };
  for (const bool reads : {true, false}) {
    CHECK(fault(archive.substr(0, 1000), reads) ==
          "ends inside a member, expected all of the archive");
    CHECK(fault(archive.substr(0, 1536 + 100), reads) == "has a damaged tar header");
    std::string damaged = archive;
    damaged[1536] = 'z';
    CHECK(fault(damaged, reads) == "has a damaged tar header");
    CHECK(fault(archive.substr(0, 1536), reads).empty());  // no end blocks: as tar itself
  }
  CHECK(fault(header("huge", 70000, 'L'), true) == "has a name of 70000 bytes in its tar headers");
  CHECK(visit(folder.write("dir.tar", member("d/", "", '5') + kTarEnd)).status.error().message ==
        "is an archive without files");
}

TEST_CASE("unpack: what is no regular file is refused without waiting") {
  const test::Scratch folder;
  CHECK_THAT(visit(folder.path("nothing")).status.error().message,
             Catch::StartsWith("cannot be read"));
  CHECK(visit(folder.path(".")).status.error().message ==
        "is a directory, expected a regular file");
  CHECK(visit("/dev/zero").status.error().message ==
        "is not a regular file, expected a regular file");
}
