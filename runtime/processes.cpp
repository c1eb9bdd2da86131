#include "runtime/processes.h"

#include <array>
#include <charconv>
#include <cstdlib>

namespace foregather::runtime {
namespace {

struct Launcher {
  const char* name;
  const char* rank;
  const char* size;
  const char* local_rank;
  const char* local_size;  ///< null: it does not say
};

// A batch job of Slurm has SLURM_PROCID too; SLURM_STEP_NUM_TASKS is the step's own.
constexpr std::array kLaunchers{
    Launcher{"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"},
    Launcher{"mpirun", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
             "OMPI_COMM_WORLD_LOCAL_SIZE"},
    Launcher{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", nullptr},
    Launcher{"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"},
};

Result<std::uint32_t> number_of(const Environment& environment, const char* name,
                                std::uint32_t most) {
  const auto text = environment(name);
  if (!text) return fail_at(name, "is not set, expected a whole number");
  std::uint32_t number = 0;
  const char* const end = text->data() + text->size();
  const auto [stop, error] = std::from_chars(text->data(), end, number);
  if (error != std::errc() || stop != end || number > most)
    return fail_at(name, "'{}', expected a whole number up to {}", *text, most);
  return number;
}

/// "node[03-07,9],other" -> "node03", "a,b" -> "a": the first host of Slurm's list.
std::string first_host(std::string_view list) {
  const auto end = list.find_first_of(",[");
  std::string host(list.substr(0, end));
  if (end == std::string_view::npos || list[end] == ',') return host;
  const std::string_view rest = list.substr(end + 1);
  host += rest.substr(0, rest.find_first_of("-,]"));
  const auto close = rest.find(']');
  if (close == std::string_view::npos) return host;
  const std::string_view behind = rest.substr(close + 1);
  return host + std::string(behind.substr(0, behind.find(',')));
}

Result<std::string> address_of(const Environment& environment, const Launcher& launcher,
                               std::uint32_t world_size) {
  if (const auto address = environment("MASTER_ADDR"); address && !address->empty())
    return *address;
  if (launcher.name == std::string_view("srun")) {
    // Rank 0 is on the first node; srun may have been typed elsewhere, on its "launch node".
    if (environment("SLURM_STEP_NUM_NODES") == "1") return std::string("127.0.0.1");
    if (const auto nodes = environment("SLURM_STEP_NODELIST"); nodes && !nodes->empty())
      return first_host(*nodes);
    if (const auto address = environment("SLURM_LAUNCH_NODE_IPADDR"); address && !address->empty())
      return *address;
  }
  if (launcher.local_size != nullptr) {
    const auto local = number_of(environment, launcher.local_size, 1U << 20U);
    if (local && *local == world_size) return std::string("127.0.0.1");
  }
  return fail_at("MASTER_ADDR", "is not set, expected the name of the machine of rank 0");
}

}  // namespace

Environment process_environment() {
  return [](const char* name) -> std::optional<std::string> {
    const char* const value = std::getenv(name);
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Result<std::optional<ProcessPlace>> process_place(const Environment& environment) {
  constexpr std::uint32_t kMostRanks = 1U << 20U, kMostPorts = 65534;
  for (const Launcher& launcher : kLaunchers) {
    if (!environment(launcher.rank) || !environment(launcher.size)) {
      // Of torchrun's, each name alone says that something is meant.
      if (launcher.name == std::string_view("torchrun") &&
          (environment(launcher.rank) || environment(launcher.size)))
        return fail_at(environment(launcher.rank) ? launcher.size : launcher.rank,
                       "is not set, but {} is; expected both",
                       environment(launcher.rank) ? launcher.rank : launcher.size);
      continue;
    }
    const auto size = number_of(environment, launcher.size, kMostRanks);
    if (!size) return tl::unexpected(size.error());
    if (*size == 1) return std::optional<ProcessPlace>();
    const auto rank = number_of(environment, launcher.rank, kMostRanks);
    if (!rank) return tl::unexpected(rank.error());
    if (*rank >= *size)
      return fail_at(launcher.rank, "{} of {} processes, expected less", *rank, *size);
    const auto local = number_of(environment, launcher.local_rank, kMostRanks);
    if (!local) return tl::unexpected(local.error());
    auto address = address_of(environment, launcher, *size);
    if (!address) return tl::unexpected(address.error());
    ProcessPlace place{*rank, *size, *local, std::move(*address), 29500, launcher.name};
    if (environment("MASTER_PORT")) {
      const auto port = number_of(environment, "MASTER_PORT", kMostPorts);
      if (!port) return tl::unexpected(port.error());
      place.port = static_cast<std::uint16_t>(*port);
    }
    return std::optional(std::move(place));
  }
  return std::optional<ProcessPlace>();
}

}  // namespace foregather::runtime
