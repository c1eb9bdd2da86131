#include "tests/support/snapshot_pickle.h"

#include "traces/pickle_writer.h"

namespace foregather::test {

std::string snapshot_pickle(const std::vector<SnapshotEntry>& events,
                            const std::vector<SnapshotPiece>& at_end,
                            const std::optional<SnapshotConf>& conf) {
  constexpr Bytes kSegment = 2 * MiB;
  traces::PickleWriter writer;
  writer.begin_dict().key("segments").begin_list().begin_dict();
  writer.field("device", 0).field("address", kSnapshotSegment).field("total_size", kSegment);
  writer.field("stream", 0).field("segment_type", "small").field("is_expandable", false);
  writer.key("segment_pool_id").pair(0, 0);
  writer.key("blocks").begin_list();
  std::int64_t address = kSnapshotSegment;
  const auto block = [&](Bytes size, Bytes requested, const char* state) {
    writer.begin_dict().field("address", address).field("size", size);
    writer.field("requested_size", requested).field("state", state).end_dict();
    address += size;
  };
  for (const SnapshotPiece& piece : at_end)
    block(piece.size, piece.is_allocated || piece.is_pending ? piece.size : 0,
          piece.is_pending     ? "active_pending_free"
          : piece.is_allocated ? "active_allocated"
                               : "inactive");
  block(kSnapshotSegment + kSegment - address, 0, "inactive");
  writer.end_list().end_dict().end_list();
  writer.key("device_traces").begin_list().begin_list();
  for (const SnapshotEntry& event : events) {
    writer.begin_dict().field("action", event.action).field("stream", 0);
    writer.field("addr", kSnapshotSegment + event.offset).field("size", event.size);
    if (event.time_us != 0) writer.field("time_us", event.time_us);
    writer.end_dict();
  }
  writer.end_list().end_list();
  if (conf) {
    writer.key("allocator_settings").begin_dict();
    writer.field("PYTORCH_CUDA_ALLOC_CONF", conf->text);
    writer.field("max_split_size", conf->max_split_size).end_dict();
  }
  writer.end_dict().finish();
  return writer.take();
}

std::string empty_snapshot_pickle() {
  traces::PickleWriter writer;
  writer.begin_dict().key("segments").begin_list().end_list();
  writer.key("device_traces").begin_list().begin_list().end_list().end_list().end_dict().finish();
  return writer.take();
}

}  // namespace foregather::test
