#include "runtime/sockets.h"

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>

namespace foregather::runtime {

Socket::~Socket() {
  if (fd >= 0) ::close(fd);
}

bool wait_for(int fd, short events, Time until) {
  constexpr std::int64_t kHour = 3'600'000;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    pollfd poll{fd, events, 0};
    const auto wait = std::clamp<std::int64_t>(left.count(), 0, kHour);
    const int ready = ::poll(&poll, 1, static_cast<int>(wait));
    if (ready > 0) return true;
    if (ready == 0 ? left.count() <= kHour : errno != EINTR) return false;
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
  if (!receive_all(fd, &size, sizeof size, until) || size > kLongestMessage) return std::nullopt;
  std::string text(size, '\0');
  if (!receive_all(fd, text.data(), size, until)) return std::nullopt;
  return text;
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

std::uint16_t bound_port(int fd) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) != 0) return 0;
  return address.ss_family == AF_INET6
             ? ntohs(reinterpret_cast<const sockaddr_in6*>(&address)->sin6_port)
             : ntohs(reinterpret_cast<const sockaddr_in*>(&address)->sin_port);
}

Connected connect_to(const std::string& host, std::uint16_t port, std::chrono::seconds attempt) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* list = nullptr;
  const int found = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &list);
  if (found != 0) return {Socket(), ::gai_strerror(found), true};
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(list, ::freeaddrinfo);
  std::string why = "nobody answers";
  for (const addrinfo* each = list; each != nullptr; each = each->ai_next) {
    Socket socket(::socket(each->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    if (socket.fd < 0) continue;
    const timeval limit{attempt.count(), 0};
    ::setsockopt(socket.fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    if (::connect(socket.fd, each->ai_addr, each->ai_addrlen) != 0) {
      why = std::strerror(errno);
      continue;
    }
    const int yes = 1;
    ::setsockopt(socket.fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
    return {std::move(socket), {}, false};
  }
  return {Socket(), why, false};
}

}  // namespace foregather::runtime
