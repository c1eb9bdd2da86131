#include "runtime/job.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <ifaddrs.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include <array>
#include <cstring>
#include <memory>
#include <sstream>
#include <thread>

#include "core/base/program_files.h"

namespace foregather::runtime {
namespace {

using std::chrono::steady_clock;
constexpr auto kSoon = std::chrono::seconds(5);

// Of this machine: those that others may reach first.
std::string own_addresses() {
  ifaddrs* list = nullptr;
  if (::getifaddrs(&list) != 0) return " 127.0.0.1";
  const std::unique_ptr<ifaddrs, void (*)(ifaddrs*)> addresses(list, ::freeifaddrs);
  std::string far, near;
  for (const ifaddrs* each = list; each != nullptr; each = each->ifa_next) {
    if (each->ifa_addr == nullptr) continue;
    std::array<char, INET6_ADDRSTRLEN> text{};
    const int family = each->ifa_addr->sa_family;
    if (family == AF_INET) {
      const auto* const v4 = reinterpret_cast<const sockaddr_in*>(each->ifa_addr);
      ::inet_ntop(family, &v4->sin_addr, text.data(), text.size());
      const bool is_loopback = (ntohl(v4->sin_addr.s_addr) >> 24U) == 127;
      (is_loopback ? near : far) += std::string(" ") + text.data();
    } else if (family == AF_INET6) {
      const auto* const v6 = reinterpret_cast<const sockaddr_in6*>(each->ifa_addr);
      if (IN6_IS_ADDR_LINKLOCAL(&v6->sin6_addr) || IN6_IS_ADDR_LOOPBACK(&v6->sin6_addr)) continue;
      ::inet_ntop(family, &v6->sin6_addr, text.data(), text.size());
      far += std::string(" ") + text.data();
    }
  }
  return far + near;
}

// All ranks call it; rank 0 has the text.
Result<std::string> told_by_rank_0(const std::string& plug_in, const std::string& text) {
  // The components that MPI opens look for its symbols among the global ones.
  void* const library = ::dlopen(plug_in.c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr)
    return fail_work("",
                     "the MPI plug-in cannot be opened: {}; set MASTER_ADDR to the machine of "
                     "rank 0",
                     ::dlerror());
  const auto broadcast =
      reinterpret_cast<MpiBroadcast>(::dlsym(library, "foregather_mpi_broadcast"));
  std::array<char, 4096> buffer{};
  text.copy(buffer.data(), buffer.size() - 1);
  if (broadcast == nullptr || broadcast(buffer.data(), buffer.size()) != 0)
    return fail_work("", "MPI does not say where rank 0 is; set MASTER_ADDR to its machine");
  return std::string(buffer.data());
}

std::string hello_of(std::uint32_t rank, const std::string& tag) {
  return fmt::format("foregather work 1\n{}\n{}", rank, tag);
}

// A connection to a machine that vanished ends by itself.
void watch(int fd) {
  const int yes = 1, idle = 10, interval = 5, count = 4;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &yes, sizeof yes);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPCNT, &count, sizeof count);
}

Time never() { return steady_clock::now() + std::chrono::hours(24 * 365); }

}  // namespace

Result<std::optional<ProcessJob>> join_job(const Environment& environment) {
  const auto is_set = [&](const char* name) {
    const auto value = environment(name);
    return value && !value->empty();
  };
  const bool is_mpirun = is_set("OMPI_COMM_WORLD_RANK") && !is_set("RANK");
  const std::string plug_in =
      is_mpirun && !is_set("MASTER_ADDR") ? own_library("libforegather_mpi.so") : std::string();
  const auto place = process_place([&](const char* name) -> std::optional<std::string> {
    if (!plug_in.empty() && name == std::string_view("MASTER_ADDR")) return "rank 0";
    return environment(name);
  });
  if (!place) return tl::unexpected(place.error());
  if (!*place) return std::optional<ProcessJob>();
  ProcessJob job{**place, {}, static_cast<std::uint16_t>((*place)->port + 1), Socket()};
  if (!plug_in.empty()) job.port = 0;
  const bool is_first = job.place.rank == 0;
  if (is_first) job.listener = listener_at(job.port);
  const int why = errno;
  std::string said;
  if (is_first && job.listener.fd >= 0) {
    job.port = bound_port(job.listener.fd);
    said = std::to_string(job.port) + own_addresses();
  }
  if (!plug_in.empty()) {
    auto told = told_by_rank_0(plug_in, said);
    if (!told) return tl::unexpected(told.error());
    std::istringstream words(*told);
    if (!(words >> job.port)) return fail_work("", "rank 0 finds no port to listen at");
    for (std::string address; words >> address;) job.addresses.push_back(address);
  } else {
    job.addresses.push_back(job.place.address);
  }
  if (is_first && job.listener.fd < 0)
    return fail_work("",
                     "the processes of the job cannot meet at port {}: {}; set another "
                     "MASTER_PORT",
                     job.port, std::strerror(why));
  return std::optional(std::move(job));
}

bool RankLink::send(const std::string& message) {
  return send_text(socket_.fd, message, steady_clock::now() + std::chrono::minutes(1));
}

std::optional<std::string> RankLink::receive() { return receive_text(socket_.fd, never()); }

std::optional<RankLink> next_link(const ProcessJob& job, const std::string& tag, Time until) {
  while (wait_for(job.listener.fd, POLLIN, until)) {
    Socket peer(::accept4(job.listener.fd, nullptr, nullptr, SOCK_CLOEXEC));
    if (peer.fd < 0) continue;
    const Time soon = steady_clock::now() + kSoon;
    const auto said = receive_text(peer.fd, soon);
    if (!said) continue;
    std::uint32_t rank = 1;
    while (rank < job.place.world_size && *said != hello_of(rank, tag)) ++rank;
    if (rank == job.place.world_size) {
      send_text(peer.fd, "it is of another job, sweep or version", soon);
      continue;
    }
    if (!send_text(peer.fd, "", soon)) continue;
    watch(peer.fd);
    return RankLink(rank, std::move(peer));
  }
  return std::nullopt;
}

Result<RankLink> link_to_rank_0(const ProcessJob& job, const std::string& tag, Ns patience) {
  const Time until = steady_clock::now() + std::chrono::nanoseconds(patience);
  std::string why = "nobody answers";
  bool is_refused = false;
  do {
    for (const std::string& address : job.addresses) {
      Connected connected = connect_to(address, job.port, kSoon);
      if (connected.socket.fd < 0) {
        why = connected.why;
        continue;
      }
      const Time soon = steady_clock::now() + kSoon;
      if (!send_text(connected.socket.fd, hello_of(job.place.rank, tag), soon)) continue;
      const auto answer = receive_text(connected.socket.fd, soon);
      if (answer && answer->empty()) {
        watch(connected.socket.fd);
        return RankLink(job.place.rank, std::move(connected.socket));
      }
      is_refused = answer.has_value();
      why = answer ? *answer : "it went away";
    }
    if (is_refused) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  } while (steady_clock::now() < until);
  return fail_work("", "rank {} cannot work for rank 0 at {}, port {}: {}", job.place.rank,
                   job.addresses.empty() ? "?" : job.addresses.front(), job.port, why);
}

}  // namespace foregather::runtime
