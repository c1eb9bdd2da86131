#include "runtime/rendezvous.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <thread>
#include <utility>

#include "runtime/sockets.h"

namespace foregather::runtime {
namespace {

// What a process says first; the answer is "" or why it is refused.
std::string hello(const std::string& tag, std::uint32_t rank, std::uint32_t world_size) {
  return fmt::format("foregather rendezvous 1\n{}\n{}\n{}", world_size, rank, tag);
}

std::uint16_t port_of(const ProcessPlace& place) {
  return static_cast<std::uint16_t>(place.port + 1);
}

std::string name_of(const ProcessPlace& place) {
  return fmt::format("{}:{}", place.address, port_of(place));
}

}  // namespace

Result<Rendezvous> Rendezvous::join(const ProcessPlace& place, const std::string& tag,
                                    Ns patience) {
  Rendezvous rendezvous(place, patience);
  const Status joined = place.rank == 0 ? rendezvous.listen(tag) : rendezvous.connect(tag);
  if (!joined) return tl::unexpected(joined.error());
  return rendezvous;
}

Rendezvous::Rendezvous(Rendezvous&& other) noexcept
    : place_(std::move(other.place_)),
      patience_(other.patience_),
      peers_(std::exchange(other.peers_, {})) {}

Rendezvous::~Rendezvous() {
  for (const int peer : peers_)
    if (peer >= 0) ::close(peer);
}

Status Rendezvous::listen(const std::string& tag) {
  const Time until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_);
  const Socket listener = listener_at(port_of(place_));
  if (listener.fd < 0)
    return fail_work("",
                     "the processes of the job cannot meet at port {}: {}; set another MASTER_PORT",
                     port_of(place_), std::strerror(errno));
  const int yes = 1;
  peers_.assign(place_.world_size, -1);
  for (std::uint32_t missing = place_.world_size - 1; missing > 0;) {
    if (!wait_for(listener.fd, POLLIN, until)) {
      std::string absent;
      for (std::uint32_t rank = 1; rank < place_.world_size; ++rank)
        if (peers_[rank] < 0) absent += fmt::format("{}{}", absent.empty() ? "" : ", ", rank);
      return fail_work("", "after {} s at port {}, {} of {} processes have not come: rank {}",
                       patience_ / kSecond, port_of(place_), missing, place_.world_size, absent);
    }
    Socket peer(::accept4(listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd < 0) continue;
    // Whoever says nothing soon is none of ours.
    const Time soon = std::min(until, std::chrono::steady_clock::now() + std::chrono::seconds(5));
    const auto said = receive_text(peer.fd, soon);
    if (!said) continue;
    std::uint32_t rank = 1;
    while (rank < place_.world_size && *said != hello(tag, rank, place_.world_size)) ++rank;
    if (rank == place_.world_size) {
      send_text(peer.fd, "it is of another job, schedule or version", soon);
      continue;
    }
    if (peers_[rank] >= 0) {
      send_text(peer.fd, fmt::format("another process is rank {}", rank), soon);
      continue;
    }
    if (!send_text(peer.fd, "", soon)) continue;
    ::setsockopt(peer.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    peers_[rank] = peer.take();
    --missing;
  }
  return {};
}

Status Rendezvous::connect(const std::string& tag) {
  const Time until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_);
  std::string why = "nobody answers";
  do {
    Connected connected = connect_to(place_.address, port_of(place_), std::chrono::seconds(5));
    if (connected.is_unknown)
      return fail_work("", "MASTER_ADDR '{}' is unknown: {}", place_.address, connected.why);
    const Socket& socket = connected.socket;
    if (socket.fd < 0) {
      why = connected.why;
    } else if (send_text(socket.fd, hello(tag, place_.rank, place_.world_size), until)) {
      const auto answer = receive_text(socket.fd, until);
      if (answer && !answer->empty())
        return fail_work("", "rank 0 at {} does not take this process as rank {}: {}",
                         name_of(place_), place_.rank, *answer);
      if (answer) {
        peers_.assign(1, connected.socket.take());
        return {};
      }
      why = "it went away";
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (std::chrono::steady_clock::now() < until);
  return fail_work("", "rank {} cannot reach rank 0 at {} within {} s: {}", place_.rank,
                   name_of(place_), patience_ / kSecond, why);
}

Result<std::vector<std::string>> Rendezvous::exchange(const std::string& message) {
  const Time until = std::chrono::steady_clock::now() + std::chrono::nanoseconds(patience_);
  std::vector<std::string> all(place_.world_size);
  if (place_.rank != 0) {
    bool well = send_text(peers_[0], message, until);
    for (std::string& each : all) {
      auto text = well ? receive_text(peers_[0], until) : std::nullopt;
      well = text.has_value();
      if (well) each = std::move(*text);
    }
    if (!well)
      return fail_work("", "rank 0 at {} went away or is stuck: see what it says", name_of(place_));
    return all;
  }
  all[0] = message;
  for (std::uint32_t rank = 1; rank < place_.world_size; ++rank) {
    auto text = receive_text(peers_[rank], until);
    if (!text) return fail_work("", "rank {} went away or is stuck: see what it says", rank);
    all[rank] = std::move(*text);
  }
  for (std::uint32_t rank = 1; rank < place_.world_size; ++rank)
    for (const std::string& each : all)
      if (!send_text(peers_[rank], each, until)) return fail_work("", "rank {} went away", rank);
  return all;
}

}  // namespace foregather::runtime
