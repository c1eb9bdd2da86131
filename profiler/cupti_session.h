// Recording of device work by CUPTI.
#pragma once

#include <atomic>
#include <memory>
#include <vector>

#include "profiler/buffer_pool.h"
#include "profiler/cupti_decoder.h"
#include "profiler/cupti_library.h"
#include "profiler/recorder.h"

namespace foregather::profiler {

/// CUPTI takes one client a process: where there is another (torch.profiler, Nsight Systems),
/// nothing is begun and the recording goes on without device work. CUPTI gets its buffers from a
/// pool on the threads of the program and hands them back there or at a flush; they are decoded on
/// the writer's thread. No lock of ours is held while CUPTI is called. Where all buffers are full,
/// CUPTI drops and counts; before CUDA 12.9, where it could crash of that, the oldest full buffer
/// is dropped and its records counted.
class CuptiSession final : public DeviceSource {
 public:
  /// Null: why was told to the recorder. One a process.
  static CuptiSession* start(Recorder& recorder);

  void flush(bool all) override;
  void write(RawFile& file) override;
  bool is_crowded() const override { return pool_.is_crowded(); }
  Cell clock() const override;
  void stop() override;

 private:
  CuptiSession(Recorder& recorder, CuptiLibrary library)
      : recorder_(recorder), library_(std::move(library)) {}
  bool enable();
  std::uint8_t* buffer();
  std::int64_t records_in(std::uint8_t* buffer, std::size_t valid) const;
  static void requested(std::uint8_t** buffer, std::size_t* size, std::size_t* max_records);
  static void completed(void* context, std::uint32_t stream, std::uint8_t* buffer, std::size_t size,
                        std::size_t valid);

  Recorder& recorder_;
  CuptiLibrary library_;
  BufferPool pool_;
  std::vector<std::uint32_t> enabled_;
  void* subscriber_ = nullptr;
  std::unique_ptr<CuptiDecoder> decoder_;
  std::atomic<std::int64_t> overrun_{0}, dropped_{0};
  std::atomic<bool> is_stopped_{false};
};

}  // namespace foregather::profiler
