#include "traces/json_stream.h"

#include <algorithm>
#include <cstring>

#include "traces/json_scan.h"

namespace foregather::traces {
namespace {

constexpr std::size_t kWindow = std::size_t{1} << 20;
constexpr std::size_t kLongestValue = std::size_t{64} << 20;

class Splitter {
 public:
  Splitter(TextSource& source, const std::string& path, const JsonArrays& arrays)
      : source_(source), path_(path), arrays_(arrays), buffer_(kWindow + kJsonPadding + 1) {}

  Result<JsonTop> read() {
    if (const Status status = read_top(); !status) return tl::unexpected(status.error());
    return std::move(top_);
  }

 private:
  static constexpr std::size_t kFront = 1;  // a byte before the text, for the bracket of a window

  Status read_top() {
    if (const Status status = skip_mark(); !status) return status;
    const auto c = next_char();
    if (!c) return tl::unexpected(c.error());
    if (*c == '[') {
      top_.is_array = true;
      ++at_;
      if (const Status status = read_array(""); !status) return status;
    } else if (*c == '{') {
      ++at_;
      if (const Status status = read_object(); !status) return status;
    } else {
      return fail_here("is no JSON, expected an object or an array");
    }
    const auto rest = next_char();
    if (!rest) return tl::unexpected(rest.error());
    if (*rest != '\0' || at_ < end_) return fail_here("goes on behind its end, expected nothing");
    return {};
  }

  Status skip_mark() {
    if (const Status status = fill(3); !status) return status;
    if (std::string_view(&buffer_[at_], end_ - at_).starts_with("\xef\xbb\xbf")) at_ += 3;
    return {};
  }

  Status read_object() {
    top_.object = "{";
    for (;;) {
      auto c = next_char();
      if (!c) return tl::unexpected(c.error());
      if (*c == '}') break;
      if (*c == ',' && !top_.keys.empty()) {
        ++at_;
        if (c = next_char(); !c) return tl::unexpected(c.error());
      } else if (!top_.keys.empty()) {
        return fail_here("expected , or }} behind the value of \"{}\"", top_.keys.back());
      }
      if (const Status status = read_member(); !status) return status;
    }
    ++at_;
    top_.object += '}';
    return {};
  }

  Status read_member() {
    if (at_ >= end_ || buffer_[at_] != '"') return fail_here("expected a key in quotes");
    auto length = value_length();
    if (!length) return tl::unexpected(length.error());
    const std::string key(&buffer_[at_ + 1], std::max<std::size_t>(*length, 2) - 2);
    at_ += *length;
    auto c = next_char();
    if (!c) return tl::unexpected(c.error());
    if (*c != ':') return fail_here("expected : behind the key \"{}\"", key);
    ++at_;
    if (c = next_char(); !c) return tl::unexpected(c.error());
    top_.keys.push_back(key);
    const bool is_streamed =
        *c == '[' && std::find(arrays_.keys.begin(), arrays_.keys.end(), key) != arrays_.keys.end();
    if (is_streamed) {
      ++at_;
      return read_array(key);
    }
    if (length = value_length(); !length) return tl::unexpected(length.error());
    if (*length == 0) return fail_here("expected a value of \"{}\"", key);
    if (top_.object.size() + *length > kLongestValue)
      return fail_here("has more than {} MiB beside its events", kLongestValue >> 20U);
    if (top_.object.size() > 1) top_.object += ',';
    top_.object.append("\"").append(key).append("\":").append(&buffer_[at_], *length);
    at_ += *length;
    return {};
  }

  // From behind "[" to behind "]".
  Status read_array(std::string_view key) {
    JsonWindow window;
    window.key = key;
    bool is_first = true;
    for (;;) {
      const auto begin = next_char();
      if (!begin) return tl::unexpected(begin.error());
      if (is_first && *begin == ']') break;
      if (at_ >= end_) {
        if (const Status status = cut(key); !status) return status;
        continue;
      }
      // As many whole elements as the buffer has.
      window.starts.clear();
      const std::size_t first = at_;
      std::size_t done = first, next = first;
      bool is_last = false, is_longer = false;
      while (!is_last && !is_longer) {
        const std::size_t stop = value_end(text(), next);
        is_longer = stop == end_;
        if (is_longer) break;
        if (buffer_[stop] == '}') {
          at_ = stop;
          return fail_here("has a }} too many, expected the end of an array");
        }
        is_last = buffer_[stop] == ']';
        if (!is_last || !is_blank(next, stop)) {
          window.starts.push_back(next - first + 1);
          done = stop;
        }
        next = stop + 1;
      }
      if (!window.starts.empty())
        if (const Status status = hand_over(window, first, done); !status) return status;
      at_ = next;
      is_first = false;
      if (is_last) return {};
      if (const Status status = is_at_end_ ? cut(key) : grow(); !status) return status;
    }
    ++at_;
    return {};
  }

  Status hand_over(JsonWindow& window, std::size_t first, std::size_t done) {
    char& front = buffer_[first - 1];
    char& back = buffer_[done];
    const char was_front = std::exchange(front, '['), was_back = std::exchange(back, ']');
    window.starts.push_back(done - first + 1);
    window.text = std::string_view(&front, done - first + 2);
    const Status status = arrays_.visit(window);
    front = was_front;
    back = was_back;
    return status;
  }

  // An array at the top may lack its end: it gets one, at first behind the last element, then in
  // the place of an element that is cut itself.
  Status cut(std::string_view key) {
    if (!top_.is_array) {
      at_ = end_;
      return fail_here("ends inside \"{}\", expected all of it", key);
    }
    if (std::exchange(top_.is_cut, true)) {
      top_.has_cut_element = true;
      end_ = at_;
    }
    buffer_[end_++] = ']';
    return {};
  }

  bool is_blank(std::size_t from, std::size_t to) const {
    return std::all_of(&buffer_[from], &buffer_[to], is_json_space);
  }

  // Of the value at at_, which is then in the buffer as a whole.
  Result<std::size_t> value_length() {
    for (;;) {
      const std::size_t stop =
          buffer_[at_] == '"' ? string_end(text(), at_) + 1 : value_end(text(), at_);
      if (stop < end_ || (stop == end_ && buffer_[at_] == '"' && buffer_[stop - 1] == '"')) {
        std::size_t last = stop;
        while (last > at_ && is_json_space(buffer_[last - 1])) --last;
        return last - at_;
      }
      if (is_at_end_) {
        at_ = end_;
        return fail_here("ends inside a value, expected all of it");
      }
      if (const Status status = grow(); !status) return tl::unexpected(status.error());
    }
  }

  std::string_view text() const { return {buffer_.data(), end_}; }

  // The next byte that is no white space; '\0' at the end.
  Result<char> next_char() {
    for (;;) {
      while (at_ < end_ && is_json_space(buffer_[at_])) ++at_;
      if (at_ < end_) return buffer_[at_];
      if (is_at_end_) return '\0';
      if (const Status status = fill(1); !status) return tl::unexpected(status.error());
    }
  }

  // More text behind what is there, in a longer buffer if need be.
  Status grow() {
    const std::size_t left = end_ - at_;
    if (left > kLongestValue)
      return fail_here("has a value of more than {} MiB", kLongestValue >> 20U);
    return fill(std::min(2 * left + kWindow / 2, kLongestValue + kWindow));
  }

  // Moves what is left to the front and reads until `wanted` bytes are there, or the end.
  Status fill(std::size_t wanted) {
    if (is_at_end_ || end_ - at_ >= wanted) return {};
    const std::size_t left = end_ - at_;
    const std::string_view gone(buffer_.data() + kFront, at_ - kFront);
    count_lines(gone);
    std::memmove(buffer_.data() + kFront, buffer_.data() + at_, left);
    at_ = kFront;
    end_ = kFront + left;
    const std::size_t size = std::max(kWindow, wanted);
    if (buffer_.size() < size + kJsonPadding + kFront) buffer_.resize(size + kJsonPadding + kFront);
    const std::size_t room = buffer_.size() - kJsonPadding - end_;
    const auto n = source_.read(std::span(buffer_).subspan(end_, room));
    if (!n) return tl::unexpected(n.error());
    is_at_end_ = *n < room;
    top_.bytes += static_cast<Bytes>(*n);
    end_ += *n;
    return {};
  }

  void count_lines(std::string_view text) {
    lines_ += count_newlines(text);
    const auto last = text.rfind('\n');
    column_ = last == std::string_view::npos ? column_ + text.size() : text.size() - last - 1;
  }

  template <class... Args>
  tl::unexpected<Error> fail_here(fmt::format_string<Args...> format, Args&&... args) {
    count_lines(std::string_view(buffer_.data() + kFront, std::min(at_, end_) - kFront));
    return fail_at(fmt::format("{}:{}:{}", path_, lines_ + 1, column_ + 1), format,
                   std::forward<Args>(args)...);
  }

  TextSource& source_;
  const std::string& path_;
  const JsonArrays& arrays_;
  std::vector<char> buffer_;
  std::size_t at_ = kFront, end_ = kFront;  // what is left of the buffer
  bool is_at_end_ = false;
  std::size_t lines_ = 0, column_ = 0;  // of it
  JsonTop top_;
};

}  // namespace

Result<JsonTop> read_json(TextSource& source, const std::string& path, const JsonArrays& arrays) {
  return Splitter(source, path, arrays).read();
}

}  // namespace foregather::traces
