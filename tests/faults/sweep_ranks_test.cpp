// A sweep over the ranks of a job, with and without an MPI, and with a rank that is killed.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>

#include <catch2/catch.hpp>

#include "tests/support/places.h"
#include "tests/support/processes.h"
#include "tests/support/repetitions.h"
#include "tests/support/scratch.h"
#include "tests/support/skip.h"

using namespace foregather;

namespace {

namespace fs = std::filesystem;
using test::begin_process, test::end_of, test::stored_points, test::text_of;
using Texts = std::vector<std::string>;
constexpr auto kPatience = std::chrono::seconds(120);
constexpr int kMostBatch = test::repetitions(40);

Texts sweep_command(const std::string& database) {
  return {test::program_path(),
          "sweep",
          test::source_dir() + "/traces/samples/tiny_fsdp2.toml",
          "--vary",
          "train.micro_batch=1.." + std::to_string(kMostBatch),
          "--vary",
          "train.seq_len=8..256+8",
          "--vary",
          "cluster.link_bandwidth_scale=1..2",
          "-j",
          "1",
          "-o",
          database};
}

std::vector<run::SweepPoint> rows_of_one_process(const test::Scratch& scratch) {
  const std::string database = scratch.path("one.db");
  REQUIRE(end_of(begin_process(sweep_command(database), {}, scratch.path("one.txt"))) == 0);
  auto rows = stored_points(database);
  REQUIRE(rows.size() == std::size_t{kMostBatch} * 32 * 2);
  return rows;
}

// A port that nobody has, and the next one is free as well as far as can be told.
int free_port() {
  const int socket = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  ::bind(socket, reinterpret_cast<const sockaddr*>(&address), size);
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(socket);
  return ntohs(address.sin_port);
}

Texts place(int rank, int of, int port) {
  return {"RANK=" + std::to_string(rank), "WORLD_SIZE=" + std::to_string(of),
          "LOCAL_RANK=" + std::to_string(rank), "MASTER_ADDR=127.0.0.1",
          "MASTER_PORT=" + std::to_string(port - 1)};
}

// Rows are on their way.
void wait_for_rows(const std::string& database) {
  const auto until = std::chrono::steady_clock::now() + kPatience;
  std::error_code ignored;
  while (std::chrono::steady_clock::now() < until) {
    const auto size = fs::file_size(database, ignored);
    if (!ignored && size > 60'000) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
}

std::string mpirun() {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');)
    if (::access((folder + "/mpirun").c_str(), X_OK) == 0) return folder + "/mpirun";
  return {};
}

Texts under_mpirun(const std::string& launcher, const Texts& options, const Texts& command) {
  Texts all{launcher, "--allow-run-as-root", "--oversubscribe", "-n", "4"};
  all.insert(all.end(), options.begin(), options.end());
  all.insert(all.end(), command.begin(), command.end());
  return all;
}

// The process of a rank below a launcher.
pid_t process_of_rank(pid_t launcher, int rank) {
  const std::string wanted = "OMPI_COMM_WORLD_RANK=" + std::to_string(rank);
  for (const auto& entry : fs::directory_iterator("/proc")) {
    const std::string stat = text_of(entry.path().string() + "/stat");
    const auto name_end = stat.rfind(')');
    if (name_end == std::string::npos) continue;
    std::istringstream fields(stat.substr(name_end + 1));
    std::string state;
    pid_t parent = 0;
    fields >> state >> parent;
    if (parent != launcher) continue;
    std::istringstream variables(text_of(entry.path().string() + "/environ"));
    for (std::string variable; std::getline(variables, variable, '\0');)
      if (variable == wanted) return std::stoi(entry.path().filename().string());
  }
  return 0;
}

bool has_plug_in() {
  return fs::exists(fs::path(test::program_path()).parent_path() / "libforegather_mpi.so");
}

}  // namespace

TEST_CASE("processes of a job that share a sweep leave what one process leaves") {
  const test::Scratch scratch;
  const auto expected = rows_of_one_process(scratch);
  const std::string database = scratch.path("many.db");
  const int port = free_port();
  std::vector<pid_t> ranks;
  for (const int rank : {3, 1, 0, 2})
    ranks.push_back(begin_process(sweep_command(database), place(rank, 4, port),
                                  scratch.path("rank" + std::to_string(rank))));
  for (const pid_t rank : ranks) CHECK(end_of(rank) == 0);
  CAPTURE(text_of(scratch.path("rank0")), text_of(scratch.path("rank1")));
  CHECK(stored_points(database) == expected);
  CHECK(text_of(scratch.path("rank0")) == text_of(scratch.path("one.txt")));
  CHECK(text_of(scratch.path("rank1")).empty());
}

TEST_CASE("a sweep completes when a process of its job is killed, and says so", "[alone]") {
  const test::Scratch scratch;
  const auto expected = rows_of_one_process(scratch);
  const std::string database = scratch.path("many.db");
  const int port = free_port();
  std::vector<pid_t> ranks;
  for (int rank = 0; rank < 4; ++rank)
    ranks.push_back(begin_process(sweep_command(database), place(rank, 4, port),
                                  scratch.path("rank" + std::to_string(rank))));
  wait_for_rows(database);
  ::kill(ranks[2], SIGKILL);
  CHECK(end_of(ranks[2]) == -SIGKILL);
  for (const int rank : {0, 1, 3}) CHECK(end_of(ranks[static_cast<std::size_t>(rank)]) == 0);
  CAPTURE(text_of(scratch.path("rank0")));
  CHECK(stored_points(database) == expected);
  CHECK(text_of(scratch.path("rank0")).find("warning: rank 2 ") != std::string::npos);
}

TEST_CASE("a process of another sweep is refused") {
  const test::Scratch scratch;
  const int port = free_port();
  const auto command = [&](const char* values, const char* database) {
    return Texts{test::program_path(),
                 "sweep",
                 test::source_dir() + "/traces/samples/tiny_fsdp2.toml",
                 "--vary",
                 values,
                 "-o",
                 scratch.path(database)};
  };
  const pid_t first = begin_process(command("train.micro_batch=1,2", "0.db"), place(0, 2, port),
                                    scratch.path("rank0"));
  const pid_t other = begin_process(command("train.micro_batch=1,3", "1.db"), place(1, 2, port),
                                    scratch.path("rank1"));
  CHECK(end_of(first) == 0);
  CHECK(end_of(other) == 1);
  CHECK(text_of(scratch.path("rank0")).find("warning: rank 1 never came") != std::string::npos);
  CHECK(text_of(scratch.path("rank1")).find("it is of another job, sweep or version") !=
        std::string::npos);
  CHECK_FALSE(fs::exists(scratch.path("1.db")));
}

TEST_CASE("mpirun spreads a sweep", "[alone]") {
  const std::string launcher = mpirun();
  if (launcher.empty()) FOREGATHER_SKIP("there is no mpirun");
  const test::Scratch scratch;
  const auto expected = rows_of_one_process(scratch);
  const std::string database = scratch.path("mpi.db");
  const Texts command = under_mpirun(launcher, {}, sweep_command(database));
  const int code = end_of(begin_process(command, {}, scratch.path("out")));
  CAPTURE(has_plug_in(), text_of(scratch.path("out")));
  CHECK(code == 0);
  CHECK(stored_points(database) == expected);
}

TEST_CASE("a sweep under mpirun completes when a rank is killed", "[alone]") {
  const std::string launcher = mpirun();
  if (launcher.empty()) FOREGATHER_SKIP("there is no mpirun");
  const test::Scratch scratch;
  const auto expected = rows_of_one_process(scratch);
  const std::string database = scratch.path("mpi.db");
  const pid_t job =
      begin_process(under_mpirun(launcher, {"--enable-recovery"}, sweep_command(database)), {},
                    scratch.path("out"));
  wait_for_rows(database);
  const pid_t victim = process_of_rank(job, 2);
  REQUIRE(victim > 0);
  ::kill(victim, SIGKILL);
  end_of(job);  // its exit code is mpirun's own
  CAPTURE(has_plug_in(), text_of(scratch.path("out")));
  CHECK(stored_points(database) == expected);
  // It went away; or it never came, where it starts so slowly.
  CHECK(text_of(scratch.path("out")).find("warning: rank 2 ") != std::string::npos);
}
