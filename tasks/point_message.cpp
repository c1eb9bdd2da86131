#include "tasks/point_message.h"

#include <cstring>
#include <type_traits>

namespace foregather::tasks {
namespace {

// Writers and readers go over the same fields in the same order.
template <class Archive>
void each_field(Archive& archive, run::PointFigures::Peaks& peaks) {
  archive(peaks.requested, peaks.allocated, peaks.active, peaks.reserved);
}

template <class Archive>
void each_field(Archive& archive, run::PointFigures::Times& times) {
  archive(times.step, times.compute_busy, times.comm_busy, times.exposed_comm, times.host_bound,
          times.ops, times.first_step, times.comm_wait, times.on_wire);
}

template <class Archive>
void each_field(Archive& archive, run::PointFigures::Memory& memory) {
  archive(memory.capacity, memory.outside_allocator, memory.peaks, memory.first_peaks,
          memory.margin, memory.oom_bytes, memory.oom_op);
}

template <class Archive>
void each_field(Archive& archive, run::PointFigures& figures) {
  archive(figures.hardware, figures.strategy, figures.world_size, figures.parameters,
          figures.tokens_per_rank_step, figures.times, figures.tokens_per_second, figures.mfu,
          figures.memory, figures.warnings);
}

template <class Archive>
void each_field(Archive& archive, run::SweepPoint& point) {
  archive(point.index, point.values, point.status, point.error, point.figures, point.warnings);
}

template <class T>
concept Plain = std::is_arithmetic_v<T> || std::is_enum_v<T>;

class PointWriter {
 public:
  template <class... T>
  void operator()(T&... fields) {
    (write(fields), ...);
  }
  std::string text;

 private:
  template <Plain T>
  void write(const T& value) {
    text.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  void write(std::string& value) {
    write(value.size());
    text += value;
  }
  template <class T>
  void write(std::optional<T>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class T>
  void write(std::vector<T>& values) {
    write(values.size());
    for (T& value : values) write(value);
  }
  template <class T>
  requires(std::is_class_v<T>) void write(T& value) { each_field(*this, value); }
};

class PointReader {
 public:
  explicit PointReader(const std::string& text) : text_(text) {}
  template <class... T>
  void operator()(T&... fields) {
    (read(fields), ...);
  }
  bool is_well() const { return is_well_ && at_ == text_.size(); }

 private:
  bool has(std::size_t bytes) { return is_well_ = is_well_ && bytes <= text_.size() - at_; }
  template <Plain T>
  void read(T& value) {
    if (!has(sizeof value)) return;
    std::memcpy(&value, text_.data() + at_, sizeof value);
    at_ += sizeof value;
  }
  void read(std::string& value) {
    std::size_t size = 0;
    read(size);
    if (!has(size)) return;
    value = text_.substr(at_, size);
    at_ += size;
  }
  template <class T>
  void read(std::optional<T>& value) {
    bool is_there = false;
    read(is_there);
    if (!is_there || !is_well_) return;
    value = T{};
    read(*value);
  }
  template <class T>
  void read(std::vector<T>& values) {
    std::size_t size = 0;
    read(size);
    if (!has(size)) return;  // each takes a byte at least
    values.resize(size);
    for (T& value : values) read(value);
  }
  template <class T>
  requires(std::is_class_v<T>) void read(T& value) { each_field(*this, value); }

  const std::string& text_;
  std::size_t at_ = 0;
  bool is_well_ = true;
};

}  // namespace

std::string message_of(const std::vector<run::SweepPoint>& points) {
  PointWriter writer;
  auto copy = points;
  writer(copy);
  return std::move(writer.text);
}

std::optional<std::vector<run::SweepPoint>> points_of(const std::string& message) {
  PointReader reader(message);
  std::vector<run::SweepPoint> points;
  reader(points);
  if (!reader.is_well()) return std::nullopt;
  return points;
}

}  // namespace foregather::tasks
