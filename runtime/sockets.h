// Messages over TCP, between the processes of a job.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "core/base/units.h"

namespace foregather::runtime {

using Time = std::chrono::steady_clock::time_point;

/// A descriptor that is closed at the end; -1: none.
struct Socket {
  int fd = -1;
  explicit Socket(int of = -1) : fd(of) {}
  Socket(Socket&& other) noexcept : fd(std::exchange(other.fd, -1)) {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(fd, other.fd);
    return *this;
  }
  ~Socket();
  int take() { return std::exchange(fd, -1); }
};

/// Of a message.
inline constexpr std::uint64_t kLongestMessage = 16 * MiB;

/// Is there something to read (POLLIN), or room to write (POLLOUT), before it is too late?
bool wait_for(int fd, short events, Time until);
bool send_all(int fd, const void* data, std::size_t bytes, Time until);
bool receive_all(int fd, void* data, std::size_t bytes, Time until);
/// A message with its length in front, in this machine's byte order.
bool send_text(int fd, const std::string& text, Time until);
/// Absent: it did not come in time, the other went away, or it is too long.
std::optional<std::string> receive_text(int fd, Time until);

/// At all addresses of this machine, of both families where it has both. Port 0: any that is free.
/// Without a descriptor: errno says why.
Socket listener_at(std::uint16_t port);
/// The port of a socket that is bound.
std::uint16_t bound_port(int fd);
/// Connected to the first address of the host that answers; without a descriptor: `why` says it.
/// `is_unknown` of a name that nobody knows.
struct Connected {
  Socket socket;
  std::string why;
  bool is_unknown = false;
};
Connected connect_to(const std::string& host, std::uint16_t port, std::chrono::seconds attempt);

}  // namespace foregather::runtime
