#include "profiler/identity.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string_view>

namespace foregather::profiler {
namespace {

struct Launcher {
  const char *rank, *local_rank, *world_size;
};
// Slurm's variables are also there in a shell of an allocation; what it launched may set its own.
constexpr std::array kLaunchers{
    Launcher{"RANK", "LOCAL_RANK", "WORLD_SIZE"},
    Launcher{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_SIZE"},
    Launcher{"PMI_RANK", "MPI_LOCALRANKID", "PMI_SIZE"},
    Launcher{"SLURM_PROCID", "SLURM_LOCALID", "SLURM_NTASKS"},
    Launcher{"FLUX_TASK_RANK", "FLUX_TASK_LOCAL_ID", "FLUX_JOB_SIZE"},
};

std::optional<std::int64_t> rank_number(const char* variable) {
  constexpr std::int64_t kMost = 1 << 24;
  const char* const text = std::getenv(variable);
  if (text == nullptr) return std::nullopt;
  const std::string_view digits = text;
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size() || value < 0 || value > kMost)
    return std::nullopt;
  return value;
}

std::string host_name() {
  std::array<char, 256> name{};
  if (::gethostname(name.data(), name.size() - 1) != 0 || name[0] == '\0') return "host";
  std::string host = name.data();
  std::replace_if(
      host.begin(), host.end(),
      [](char c) {
        return !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                 c == '.' || c == '_' || c == '-');
      },
      '-');
  return host;
}

std::string command_line() {
  constexpr std::size_t kMost = 4096;
  std::ifstream file("/proc/self/cmdline", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  text.resize(std::min(text.size(), kMost));
  while (!text.empty() && text.back() == '\0') text.pop_back();
  std::replace(text.begin(), text.end(), '\0', ' ');
  return text;
}

}  // namespace

Identity identify() {
  Identity identity;
  for (const Launcher& launcher : kLaunchers) {
    identity.rank = rank_number(launcher.rank);
    if (!identity.rank) continue;
    identity.local_rank = rank_number(launcher.local_rank);
    identity.world_size = rank_number(launcher.world_size);
    break;
  }
  identity.host = host_name();
  identity.command = command_line();
  std::ifstream("/proc/self/comm") >> identity.name;
  identity.pid = ::getpid();
  identity.parent = ::getppid();
  return identity;
}

std::string raw_file_name(const Identity& identity) {
  const std::string rank = identity.rank ? "rank" + std::to_string(*identity.rank) + "_" : "";
  return rank + identity.host + "_" + std::to_string(identity.pid) + ".sqlite";
}

}  // namespace foregather::profiler
