#include "traces/unpack.h"

#include <zlib.h>
#include <zstd.h>

#include <utility>
#include <vector>

namespace foregather::traces {
namespace {

constexpr std::size_t kPackedPiece = std::size_t{1} << 18;
constexpr int kGzipWindow = 15 + 16;  // zlib: the largest window, a gzip header

// What both have: packed bytes that are refilled, and a count of what came out.
class Unpacking : public TextSource {
 protected:
  Unpacking(std::unique_ptr<TextSource> packed, std::string path)
      : path_(std::move(path)), packed_(std::move(packed)), in_(kPackedPiece) {}

  /// How many packed bytes there are now; 0 only at their end.
  Result<std::size_t> refill() {
    auto n = packed_->read(in_);
    if (n) is_at_end_ = *n < in_.size();
    return n;
  }
  Status count(std::size_t bytes) {
    unpacked_ += static_cast<Bytes>(bytes);
    if (unpacked_ > kMostUnpackedBytes)
      return fail_at(path_, "unpacks to more than {} GiB, expected a trace",
                     kMostUnpackedBytes / GiB);
    return {};
  }

  std::string path_;
  std::unique_ptr<TextSource> packed_;
  std::vector<char> in_;
  bool is_at_end_ = false;

 private:
  Bytes unpacked_ = 0;
};

class Gzip final : public Unpacking {
 public:
  Gzip(std::unique_ptr<TextSource> packed, std::string path)
      : Unpacking(std::move(packed), std::move(path)) {
    is_ready_ = inflateInit2(&z_, kGzipWindow) == Z_OK;
  }
  Gzip(const Gzip&) = delete;
  Gzip& operator=(const Gzip&) = delete;
  ~Gzip() override { inflateEnd(&z_); }

  Result<std::size_t> read(std::span<char> buffer) override {
    if (!is_ready_) return fail_work(path_, "zlib could not start");
    z_.next_out = reinterpret_cast<Bytef*>(buffer.data());
    z_.avail_out = static_cast<uInt>(std::min<std::size_t>(buffer.size(), 1U << 30));
    const std::size_t wanted = z_.avail_out;
    while (z_.avail_out > 0) {
      if (z_.avail_in == 0) {
        const auto n = refill();
        if (!n) return tl::unexpected(n.error());
        z_.next_in = reinterpret_cast<Bytef*>(in_.data());
        z_.avail_in = static_cast<uInt>(*n);
        if (*n == 0) {
          if (is_inside_) return fail_at(path_, "ends inside its gzip data, expected all of it");
          break;
        }
      }
      if (!is_inside_ && !begin_member()) break;
      const int status = inflate(&z_, Z_NO_FLUSH);
      if (status == Z_STREAM_END)
        is_inside_ = false;
      else if (status != Z_OK && status != Z_BUF_ERROR)
        return fail_at(path_, "has damaged gzip data ({})", z_.msg != nullptr ? z_.msg : "zlib");
    }
    const std::size_t got = wanted - z_.avail_out;
    if (const Status status = count(got); !status) return tl::unexpected(status.error());
    return got;
  }

 private:
  // What follows a member is another one, or padding that is ignored as gzip does.
  bool begin_member() {
    if (has_begun_ && z_.next_in[0] != 0x1f) {
      z_.avail_in = 0;
      return false;
    }
    if (has_begun_) inflateReset(&z_);
    has_begun_ = is_inside_ = true;
    return true;
  }

  z_stream z_{};
  bool is_ready_ = false;
  bool has_begun_ = false;
  bool is_inside_ = false;
};

class Zstd final : public Unpacking {
 public:
  Zstd(std::unique_ptr<TextSource> packed, std::string path)
      : Unpacking(std::move(packed), std::move(path)), context_(ZSTD_createDCtx()) {}
  Zstd(const Zstd&) = delete;
  Zstd& operator=(const Zstd&) = delete;
  ~Zstd() override { ZSTD_freeDCtx(context_); }

  Result<std::size_t> read(std::span<char> buffer) override {
    if (context_ == nullptr) return fail_work(path_, "zstd could not start");
    ZSTD_outBuffer out{buffer.data(), buffer.size(), 0};
    while (out.pos < out.size) {
      if (at_.pos == at_.size) {
        const auto n = refill();
        if (!n) return tl::unexpected(n.error());
        at_ = {in_.data(), *n, 0};
        if (*n == 0) {
          if (is_inside_) return fail_at(path_, "ends inside its zstd data, expected all of it");
          break;
        }
      }
      const std::size_t status = ZSTD_decompressStream(context_, &out, &at_);
      if (ZSTD_isError(status) != 0)
        return fail_at(path_, "has damaged zstd data ({})", ZSTD_getErrorName(status));
      is_inside_ = status != 0;
    }
    if (const Status status = count(out.pos); !status) return tl::unexpected(status.error());
    return out.pos;
  }

 private:
  ZSTD_DCtx* context_;
  ZSTD_inBuffer at_{nullptr, 0, 0};
  bool is_inside_ = false;
};

}  // namespace

bool is_gzip(std::string_view head) { return head.starts_with("\x1f\x8b"); }
bool is_zstd(std::string_view head) { return head.starts_with("\x28\xb5\x2f\xfd"); }

std::unique_ptr<TextSource> ungzip(std::unique_ptr<TextSource> packed, std::string path) {
  return std::make_unique<Gzip>(std::move(packed), std::move(path));
}

std::unique_ptr<TextSource> unzstd(std::unique_ptr<TextSource> packed, std::string path) {
  return std::make_unique<Zstd>(std::move(packed), std::move(path));
}

}  // namespace foregather::traces
