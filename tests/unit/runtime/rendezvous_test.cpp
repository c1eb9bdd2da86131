#include "runtime/rendezvous.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <map>
#include <thread>
#include <catch2/catch.hpp>

#include "runtime/job.h"

using namespace foregather;
using runtime::ProcessPlace;
using runtime::Rendezvous;

namespace {

// One below a port that is free now.
std::uint16_t free_port() {
  const int probe = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in any{};
  any.sin_family = AF_INET;
  any.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  REQUIRE(::bind(probe, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof any;
  REQUIRE(::getsockname(probe, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  ::close(probe);
  return static_cast<std::uint16_t>(ntohs(any.sin_port) - 1);
}

ProcessPlace place(std::uint32_t rank, std::uint32_t world_size, std::uint16_t port) {
  return {rank, world_size, rank, "127.0.0.1", port, "test"};
}

}  // namespace

TEST_CASE("processes tell each other what they have, again and again") {
  constexpr std::uint32_t kRanks = 5;
  const std::uint16_t port = free_port();
  std::vector<std::string> errors(kRanks);
  std::vector<std::vector<std::string>> heard(kRanks);
  std::vector<std::thread> processes;
  for (std::uint32_t rank = 0; rank < kRanks; ++rank)
    processes.emplace_back([&, rank] {
      auto rendezvous = Rendezvous::join(place(rank, kRanks, port), "job", 20 * kSecond);
      if (!rendezvous) return void(errors[rank] = rendezvous.error().text());
      for (int round = 0; round < 3; ++round) {
        // The last one is larger than what sockets buffer.
        const std::string message(round == 2 ? 3'000'000 : 10, static_cast<char>('a' + rank));
        auto all = rendezvous->exchange(message);
        if (!all) return void(errors[rank] = all.error().text());
        heard[rank] = std::move(*all);
      }
    });
  for (std::thread& process : processes) process.join();
  for (std::uint32_t rank = 0; rank < kRanks; ++rank) {
    CHECK(errors[rank] == "");
    REQUIRE(heard[rank].size() == kRanks);
    for (std::uint32_t other = 0; other < kRanks; ++other) {
      CHECK(heard[rank][other].size() == 3'000'000);
      CHECK(heard[rank][other].front() == static_cast<char>('a' + other));
    }
  }
}

TEST_CASE("who does not come is named") {
  const std::uint16_t port = free_port();
  std::string error;
  std::thread one([&] {
    // Waits for the answer of rank 0, which gives up.
    (void)Rendezvous::join(place(1, 4, port), "job", 3 * kSecond);
  });
  const auto rendezvous = Rendezvous::join(place(0, 4, port), "job", kSecond);
  one.join();
  REQUIRE(!rendezvous);
  CHECK(rendezvous.error().fault == Fault::work);
  CHECK(rendezvous.error().text() ==
        fmt::format("after 1 s at port {}, 2 of 4 processes have not come: rank 2, 3", port + 1));
}

TEST_CASE("nobody at the address, a taken port and an unknown name are said") {
  const std::uint16_t port = free_port();
  const auto alone = Rendezvous::join(place(1, 2, port), "job", kSecond / 5);
  REQUIRE(!alone);
  CHECK(alone.error().text() ==
        fmt::format("rank 1 cannot reach rank 0 at 127.0.0.1:{} within 0 s: Connection refused",
                    port + 1));

  ProcessPlace nowhere = place(1, 2, port);
  nowhere.address = "no.such.machine.invalid";
  const auto unknown = Rendezvous::join(nowhere, "job", kSecond / 5);
  REQUIRE(!unknown);
  CHECK(unknown.error().text().find("MASTER_ADDR 'no.such.machine.invalid' is unknown") == 0);

  const int taken = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  REQUIRE(::bind(taken, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof any;
  REQUIRE(::getsockname(taken, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  REQUIRE(::listen(taken, 1) == 0);
  const auto port_of = static_cast<std::uint16_t>(ntohs(any.sin6_port) - 1);
  const auto refused = Rendezvous::join(place(0, 2, port_of), "job", kSecond / 5);
  ::close(taken);
  REQUIRE(!refused);
  CHECK(refused.error().text().find("set another MASTER_PORT") != std::string::npos);
}

TEST_CASE("processes of another job and two of one rank are refused") {
  const std::uint16_t port = free_port();
  std::string other_job, twice;
  std::thread others([&] {
    const auto wrong = Rendezvous::join(place(1, 3, port), "another job", 5 * kSecond);
    other_job = wrong ? "" : wrong.error().text();
    auto first = Rendezvous::join(place(1, 3, port), "job", 5 * kSecond);
    const auto second = Rendezvous::join(place(1, 3, port), "job", 5 * kSecond);
    twice = second ? "" : second.error().text();
    auto last = Rendezvous::join(place(2, 3, port), "job", 5 * kSecond);
  });
  const auto rendezvous = Rendezvous::join(place(0, 3, port), "job", 10 * kSecond);
  others.join();
  CHECK(rendezvous);
  CHECK(other_job.find("does not take this process as rank 1: it is of another job") !=
        std::string::npos);
  CHECK(twice.find("another process is rank 1") != std::string::npos);
}

TEST_CASE("a process that goes away ends the exchange of the others") {
  const std::uint16_t port = free_port();
  std::thread other([&] { (void)Rendezvous::join(place(1, 2, port), "job", 5 * kSecond); });
  auto rendezvous = Rendezvous::join(place(0, 2, port), "job", 5 * kSecond);
  other.join();
  REQUIRE(rendezvous);
  const auto all = rendezvous->exchange("x");
  REQUIRE(!all);
  CHECK(all.error().text() == "rank 1 went away or is stuck: see what it says");
}

TEST_CASE("rank 0 of a job says which port is taken") {
  const int taken = ::socket(AF_INET6, SOCK_STREAM, 0);
  sockaddr_in6 any{};
  any.sin6_family = AF_INET6;
  any.sin6_addr = in6addr_any;
  REQUIRE(::bind(taken, reinterpret_cast<const sockaddr*>(&any), sizeof any) == 0);
  socklen_t size = sizeof any;
  REQUIRE(::getsockname(taken, reinterpret_cast<sockaddr*>(&any), &size) == 0);
  REQUIRE(::listen(taken, 1) == 0);
  const int port = ntohs(any.sin6_port);
  const auto job = [&](const char* rank) {
    return runtime::join_job([&](const char* name) -> std::optional<std::string> {
      const std::map<std::string, std::string> values{{"RANK", rank},
                                                      {"WORLD_SIZE", "2"},
                                                      {"LOCAL_RANK", rank},
                                                      {"MASTER_ADDR", "127.0.0.1"},
                                                      {"MASTER_PORT", std::to_string(port - 1)}};
      const auto value = values.find(name);
      return value == values.end() ? std::nullopt : std::optional(value->second);
    });
  };
  const auto refused = job("0");
  const auto other = job("1");  // listens at none
  ::close(taken);
  REQUIRE(!refused);
  CHECK(refused.error().text() ==
        fmt::format("the processes of the job cannot meet at port {}: Address already in use; set "
                    "another MASTER_PORT",
                    port));
  REQUIRE(other);
  REQUIRE(other->has_value());
  CHECK((*other)->port == port);
  CHECK((*other)->addresses == std::vector<std::string>{"127.0.0.1"});
}
