#include "runtime/rendezvous.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

namespace foregather::runtime {
namespace {

using Time = std::chrono::steady_clock::time_point;
constexpr std::uint64_t kLongest = 16 * MiB;

struct Socket {
  int fd = -1;
  explicit Socket(int of) : fd(of) {}
  Socket(Socket&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket() {
    if (fd >= 0) ::close(fd);
  }
  int take() { return std::exchange(fd, -1); }
};

bool wait_for(int fd, short events, Time until) {
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd poll{fd, events, 0};
    const int ready = ::poll(&poll, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

bool send_all(int fd, const void* data, std::size_t bytes, Time until) {
  const auto* at = static_cast<const char*>(data);
  while (bytes > 0) {
    if (!wait_for(fd, POLLOUT, until)) return false;
    const ssize_t sent = ::send(fd, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent <= 0) return false;
    at += sent;
    bytes -= static_cast<std::size_t>(sent);
  }
  return true;
}

bool receive_all(int fd, void* data, std::size_t bytes, Time until) {
  auto* at = static_cast<char*>(data);
  while (bytes > 0) {
    if (!wait_for(fd, POLLIN, until)) return false;
    const ssize_t got = ::recv(fd, at, bytes, MSG_DONTWAIT);
    if (got < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (got <= 0) return false;
    at += got;
    bytes -= static_cast<std::size_t>(got);
  }
  return true;
}

bool send_text(int fd, const std::string& text, Time until) {
  const std::uint64_t size = text.size();
  return send_all(fd, &size, sizeof size, until) && send_all(fd, text.data(), text.size(), until);
}

std::optional<std::string> receive_text(int fd, Time until) {
  std::uint64_t size = 0;
  if (!receive_all(fd, &size, sizeof size, until) || size > kLongest) return std::nullopt;
  std::string text(size, '\0');
  if (!receive_all(fd, text.data(), size, until)) return std::nullopt;
  return text;
}

// What a process says first; the answer is "" or why it is refused.
std::string hello(const std::string& tag, std::uint32_t rank, std::uint32_t world_size) {
  return fmt::format("foregather rendezvous 1\n{}\n{}\n{}", world_size, rank, tag);
}

std::uint16_t port_of(const ProcessPlace& place) {
  return static_cast<std::uint16_t>(place.port + 1);
}

// At all addresses of this machine; of both families where it has both.
Socket listener_at(std::uint16_t port) {
  const int yes = 1, no = 0;
  sockaddr_in6 any6{};
  any6.sin6_family = AF_INET6;
  any6.sin6_port = htons(port);
  any6.sin6_addr = in6addr_any;
  sockaddr_in any4{};
  any4.sin_family = AF_INET;
  any4.sin_port = htons(port);
  Socket socket(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const bool is_v6 = socket.fd >= 0;
  if (is_v6)
    ::setsockopt(socket.fd, IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
  else
    socket = Socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ::setsockopt(socket.fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  const auto* const any =
      is_v6 ? reinterpret_cast<const sockaddr*>(&any6) : reinterpret_cast<const sockaddr*>(&any4);
  if (::bind(socket.fd, any, is_v6 ? sizeof any6 : sizeof any4) == 0 &&
      ::listen(socket.fd, SOMAXCONN) == 0)
    return socket;
  const int why = errno;
  socket = Socket(-1);
  errno = why;
  return socket;
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
    addrinfo hints{};
    hints.ai_socktype = SOCK_STREAM;
    addrinfo* list = nullptr;
    const int found = ::getaddrinfo(place_.address.c_str(), std::to_string(port_of(place_)).c_str(),
                                    &hints, &list);
    if (found != 0)
      return fail_work("", "MASTER_ADDR '{}' is unknown: {}", place_.address,
                       ::gai_strerror(found));
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(list, ::freeaddrinfo);
    for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
      Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
      if (socket.fd < 0) continue;
      constexpr timeval kAttempt{5, 0};
      ::setsockopt(socket.fd, SOL_SOCKET, SO_SNDTIMEO, &kAttempt, sizeof kAttempt);
      if (::connect(socket.fd, each->ai_addr, each->ai_addrlen) != 0) {
        why = std::strerror(errno);
        continue;
      }
      if (!send_text(socket.fd, hello(tag, place_.rank, place_.world_size), until)) continue;
      const auto answer = receive_text(socket.fd, until);
      if (!answer) {
        why = "it went away";
        continue;
      }
      if (!answer->empty())
        return fail_work("", "rank 0 at {} does not take this process as rank {}: {}",
                         name_of(place_), place_.rank, *answer);
      const int yes = 1;
      ::setsockopt(socket.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
      peers_.assign(1, socket.take());
      return {};
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
