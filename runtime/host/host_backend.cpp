#include "runtime/host/host_backend.h"

#include <algorithm>
#include <map>

#include "runtime/groups.h"
#include "runtime/host/blas.h"
#include "runtime/host/host_device.h"

namespace foregather::runtime {
namespace {

class HostBackend final : public Backend, private DeviceEvents {
 public:
  explicit HostBackend(const Rating& rating) { shared_.rating = rating; }

  std::string_view name() const override { return "host"; }
  Status ready() override { return {}; }
  std::string description() const override { return "products by " + Blas::get().name(); }

  Result<std::vector<std::unique_ptr<Device>>> open(const Job& job) override {
    shared_.job = job;
    outer_ = job.events;
    shared_.job.events = this;
    const std::vector<std::vector<Seat>> seats = make_rooms();
    if (const Status seated = check_seats(seats); !seated) return tl::unexpected(seated.error());
    std::vector<std::unique_ptr<Device>> devices;
    for (std::uint32_t rank = 0; rank < job.ranks.size(); ++rank) {
      auto device = HostDevice::create(shared_, rank, seats[rank]);
      if (!device) return tl::unexpected(device.error());
      devices_.push_back(device->get());
      devices.push_back(std::move(*device));
    }
    return devices;
  }

  void abandon() override {
    shared_.failed = true;
    for (HostDevice* device : devices_) device->wake();
    for (const auto& room : rooms_) room->wake();
  }

  void stop() override {
    for (HostDevice* device : devices_) device->stop();
  }

  BackendReport report() const override { return shared_.report; }

 private:
  void done(const OpDone& op) override { outer_->done(op); }
  void failed(Error error) override {
    shared_.failed = true;
    outer_->failed(std::move(error));
  }

  // By rank and communicator.
  std::vector<std::vector<Seat>> make_rooms() {
    const Graph& graph = *shared_.job.graph;
    std::vector<std::vector<Seat>> seats(shared_.job.ranks.size(),
                                         std::vector<Seat>(graph.communicators.size()));
    for (std::size_t c = 0; c < graph.communicators.size(); ++c)
      for (Members& members :
           instances_of(graph, graph.communicators[c].group, shared_.job.ranks)) {
        auto room =
            std::make_unique<MeetingRoom>(std::move(members), *shared_.job.clock, shared_.rating,
                                          shared_.job.link_scale, shared_.failed);
        for (std::uint32_t m = 0; m < room->members().ranks.size(); ++m)
          seats[room->members().ranks[m]][c] = {room.get(), m};
        rooms_.push_back(std::move(room));
      }
    return seats;
  }

  Status check_seats(const std::vector<std::vector<Seat>>& seats) const {
    const Graph& graph = *shared_.job.graph;
    for (std::uint32_t rank = 0; rank < seats.size(); ++rank) {
      const Range ops = graph.at(graph.classes[shared_.job.class_of[rank]].program).ops;
      for (std::uint32_t row = ops.first; row < ops.end(); ++row) {
        const CommunicatorId communicator = graph.ops[row].communicator;
        if (communicator && seats[rank][communicator.row()].room == nullptr)
          return fail("rank {} meets others on communicator '{}', whose group has no place for it",
                      shared_.job.ranks[rank], graph.text(graph.at(communicator).name));
      }
    }
    return {};
  }

  HostJob shared_;
  DeviceEvents* outer_ = nullptr;
  std::vector<std::unique_ptr<MeetingRoom>> rooms_;
  std::vector<HostDevice*> devices_;
};

}  // namespace

std::unique_ptr<Backend> make_host_backend(const Rating& rating) {
  return std::make_unique<HostBackend>(rating);
}

}  // namespace foregather::runtime
