#include "tasks/validation/interconnect.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <string_view>

#include "tasks/machine.h"
#include "tasks/validation/adapters.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

std::string pcie_of(std::string_view text, std::string_view hardware) {
  for (const char generation : {'3', '4', '5'})
    for (const std::string_view word : {"gen", "gen ", "pcie", "pcie "})
      if (says(text, std::string(word) + generation)) return fmt::format("pcie{}", generation);
  return fmt::format("pcie{}", pcie_generation(hardware));
}

/// Between two PCIe cards; empty: they have no connector.
std::string bridge_of(std::string_view hardware) {
  constexpr std::string_view kGa102[] = {"rtx_3090", "rtx_3090_ti", "rtx_a5000", "rtx_a6000",
                                         "a40"};
  if (std::ranges::find(kGa102, hardware) != std::end(kGa102)) return "nvlink_bridge_ga102";
  if (hardware == "a30") return "nvlink_bridge_a30";
  if (hardware == "rtx_2080_ti") return "nvlink_bridge_tu102";
  const bool has_three = hardware.starts_with("a100_") || hardware.starts_with("h100_") ||
                         hardware.starts_with("h200_") || hardware.starts_with("a800_");
  return has_three ? "nvlink_bridge" : "";
}

std::string topology_of(std::string_view text, std::string_view hardware, bool has_nvlink,
                        int local) {
  constexpr std::string_view kNoPeers[] = {"no p2p",
                                           "no peer",
                                           "without p2p",
                                           "without peer",
                                           "p2p disable",
                                           "p2p disabled",
                                           "p2p off",
                                           "p2p not",
                                           "p2p no",
                                           "p2p=0",
                                           "p2p is not",
                                           "p2p is disabled",
                                           "p2p is off",
                                           "p2p unsupported",
                                           "peer access off",
                                           "peer access not",
                                           "peer access disabled",
                                           "disable p2p",
                                           "disabled p2p",
                                           "shm"};
  constexpr std::string_view kBridges[] = {"bridge", "bridges"};
  constexpr std::string_view kPeers[] = {"p2p", "peer access", "peer to peer"};
  constexpr std::string_view kSockets[] = {"dual socket", "two sockets", "2 sockets", "2 socket",
                                           "cross socket"};
  const bool says_nvlink = text.find("nvlink") != std::string_view::npos || says(text, "nvswitch");
  if (!has_nvlink && local == 2 && says_nvlink && says_any(text, kBridges)) {
    const std::string bridge = bridge_of(hardware);
    if (!bridge.empty()) return bridge;
  }
  if (!has_nvlink || (says(text, "pcie") && !says_nvlink)) {
    if (says_any(text, kNoPeers) && !says(text, "p2p disable=0"))
      return pcie_of(text, hardware) + "_host";
    if (says_any(text, kSockets) && pcie_of(text, hardware) != "pcie3")
      return pcie_of(text, hardware) + "_dual_socket";
    if (says_any(text, kPeers) || has_nvlink) return pcie_of(text, hardware) + "_p2p";
    return {};
  }
  if (says(text, "nvswitch")) return "nvswitch";
  const bool is_direct =
      says(text, "direct") && !says(text, "gpu direct") && !says(text, "direct rdma");
  return is_direct || says(text, "mesh") || says(text, "point to point") ? "nvlink_mesh" : "";
}

struct Word {
  std::string_view word, fabric;
};
constexpr std::string_view kRoce = "roce";
constexpr std::string_view kEthernet = "ethernet_100";
constexpr double kUsualEthernet = 100;  // Gb/s
/// The first that stands in the text.
constexpr Word kFabrics[] = {
    {"tcpxo", "tcpxo"},
    {"fastrak", "tcpxo"},
    {"a3 mega", "tcpxo"},
    {"a3mega", "tcpxo"},
    {"tcpx", "tcpx"},
    {"a3 high", "tcpx"},
    {"efa", "efa_3200"},
    {"elastic fabric adapter", "efa_3200"},
    {"p5", "efa_3200"},
    {"slingshot", "slingshot"},
    {"ib disable=1", "ethernet_100"},
    {"net=socket", "ethernet_100"},
    {"roce", kRoce},
    {"spectrum", kRoce},
    {"hdr", "ib_hdr"},
    {"edr", "ib_hdr"},
    {"ndr", "ib_ndr"},
    {"infiniband", ""},
    {"ib", ""},
    {"ethernet", "ethernet_100"},
    {"tcp", "ethernet_100"},
    {"socket transport", "ethernet_100"},
    {"net/socket", "ethernet_100"},
};

/// Without a speed RoCE has that of the adapters that usually come with the GPU.
std::string fabric_of(std::string_view text, const sim::Hardware& hardware) {
  constexpr double kOf200Gbps = 25e9;
  constexpr std::string_view kSimpleOnly[] = {"p3dn", "p4d", "p4de"};
  if (says_any(text, kSimpleOnly)) return "efa_400";
  for (const Word& known : kFabrics) {
    if (!says(text, known.word)) continue;
    if (known.fabric == kRoce)
      return hardware.inter.nic_bandwidth > kOf200Gbps ? "roce_400" : "roce_200";
    if (!known.fabric.empty()) return std::string(known.fabric);
    return hardware.generation() >= sim::Generation::hopper ? "ib_ndr" : "ib_hdr";
  }
  const auto gbe = text.find("gbe");  // "100gbe"
  const bool is_ethernet =
      gbe != std::string_view::npos && gbe > 0 && (is_digit(text[gbe - 1]) || text[gbe - 1] == ' ');
  return is_ethernet ? "ethernet_100" : "";
}

struct Share {
  double gbps = 0;
  double nics = 0;  ///< 0: not known
};

/// Of one GPU. A total of a node ("EFA 3200Gb/s") is shared by all its GPUs, but what one adapter
/// can be by those that take part. What AWS states without a count is a total, but for a node of
/// one GPU, and a TCP network's is the node's one adapter.
Share share_of(const Adapters& adapters, std::string_view fabric, int local, double gpus_of_node) {
  const bool is_one = adapters.gbps <= kFastestAdapter;
  const double sharing = is_one ? local : std::max<double>(gpus_of_node, local);
  const auto each = [&](double nics) { return Share{adapters.gbps * nics, nics}; };
  if (adapters.is_of_gpu) return each(adapters.count.value_or(1));
  if (adapters.is_of_node) return {adapters.gbps / sharing};
  if (adapters.count && *adapters.count > gpus_of_node)
    return each(*adapters.count / std::max<double>(gpus_of_node, local));
  if (adapters.count) return each(std::min(1.0, *adapters.count / static_cast<double>(local)));
  if (fabric == kEthernet) return each(1.0 / local);
  const bool is_total = !is_one || (fabric.starts_with("efa") && local > 1);
  return is_total ? Share{adapters.gbps / sharing} : Share{adapters.gbps};
}

/// But not "one process per GPU".
bool is_one_process(std::string_view text) {
  for (const std::string_view words : {"1 process", "one process", "single process"})
    if (says(text, words)) {
      const std::string_view rest = text.substr(text.find(words) + words.size());
      if (!rest.starts_with(" per ") && !rest.starts_with(" a ") && !rest.starts_with("/") &&
          !rest.starts_with(" for each "))
        return true;
    }
  return false;
}

/// "-g 8": GPUs a process.
bool has_process_of_many(std::string_view text) {
  constexpr std::string_view kFlag = "-g ";
  const auto flag = text.find(kFlag);
  if (flag == std::string_view::npos || (flag > 0 && is_letter(text[flag - 1]))) return false;
  int gpus = 0;
  const char* const number = text.data() + flag + kFlag.size();
  return std::from_chars(number, text.data() + text.size(), gpus).ec == std::errc() && gpus > 1;
}

/// Multicast in the switch, switched off: the links are those of NVLink.
bool is_without_nvls(std::string_view text) {
  constexpr std::string_view kWords[] = {"nvls enable=0", "no nvls", "without nvls",
                                         "nvls disabled", "nvls off"};
  return says_any(text, kWords);
}

/// One process launches on its GPUs one after the other, which sets a floor. ns a GPU in published
/// tables: 3.7 to 4.2 µs on A100 (three sources, 2 to 8 GPUs), 5.8 to 6 on H100 (two, 4 GPUs).
double floor_of_one_process(sim::Generation generation) {
  return generation < sim::Generation::hopper ? 3900 : 5900;
}
/// ns by which each channel makes that longer on A100 (2, 4 and 8 alike), but not on Hopper.
constexpr double kChannelOfOneProcess = 1300;

}  // namespace

Result<sim::Hardware> machine_of_interconnect(const std::string& gpu, const std::string& text,
                                              int ranks, int trays) {
  plan::Cluster cluster;
  const int nodes = domains_of(gpu, text, ranks, trays);
  cluster.hardware = hardware_of_gpu(gpu);
  if (cluster.hardware.empty()) return fail("no hardware file for the GPU '{}'", gpu);
  const auto board = load_machine(cluster);
  if (!board) return board;
  const std::string words = lower(spaced(text));
  const int local = std::max(1, ranks / std::max(1, nodes));
  cluster.topology = topology_of(words, cluster.hardware, board->has_nvlink(), local);
  Share share;
  if (nodes > 1) {
    cluster.fabric = fabric_of(words, *board);
    // Its own adapters are shared by two dies.
    if (cluster.hardware == "mi250x" && cluster.fabric == "slingshot") cluster.fabric.clear();
    // Trays of one domain have adapters of their own.
    const int of_tray = std::max(1, ranks / std::max(1, trays));
    const bool has_trays = board->intra.gpus > 8;
    if (const auto adapters = adapters_of(text))
      share = share_of(*adapters, cluster.fabric, has_trays ? of_tray : local,
                       has_trays ? of_tray : board->intra.gpus);
    else if (cluster.fabric == kEthernet)
      share = share_of({{}, kUsualEthernet}, kEthernet, local, board->intra.gpus);
    cluster.fabric_gbps = share.gbps;
  }
  auto hardware = load_machine(cluster);
  if (!hardware) return hardware;
  if (local == 1) hardware->intra.gpus = 1;
  if (share.nics > 0) hardware->inter.nics_per_gpu = share.nics;
  if (is_without_nvls(words) && hardware->intra.kind == sim::IntraLink::nvswitch) {
    // Priced as links between these GPUs alone.
    hardware->intra.kind = sim::IntraLink::nvlink;
    hardware->intra.gpus = local;
  }
  if (drives_all_gpus(*hardware, text, nodes)) {
    hardware->nccl.launch_floor = floor_of_one_process(hardware->generation()) * local;
    if (hardware->generation() < sim::Generation::hopper)
      hardware->nccl.channel_start = kChannelOfOneProcess;
  }
  return hardware;
}

bool drives_all_gpus(const sim::Hardware& hardware, const std::string& text, int nodes) {
  const std::string words = lower(spaced(text));
  if (is_one_process(words) || has_process_of_many(text)) return true;
  constexpr std::string_view kOfProcesses[] = {"process", "processes", "mpi", "mpirun", "slurm"};
  const bool is_silent = !says_any(words, kOfProcesses) && text.find("-g ") == std::string::npos;
  return is_silent && nodes == 1 && hardware.has_nvlink() &&
         hardware.generation() < sim::Generation::hopper;
}

int domains_of(const std::string& gpu, const std::string& text, int ranks, int nodes) {
  constexpr std::string_view kDomains[] = {"nvl72", "mnnvl", "multi node nvlink",
                                           "single nvlink domain", "one nvlink domain"};
  constexpr std::string_view kTwo[] = {"two domains",      "2 domains", "two nvlink domains",
                                       "2 nvlink domains", "two racks", "2 racks"};
  constexpr int kGpusOfDomain = 72;
  const std::string words = lower(spaced(gpu + ' ' + text));
  if (!says_any(words, kDomains)) return nodes;
  const int least = says_any(words, kTwo) ? 2 : 1;
  return std::min(nodes, std::max(least, (ranks + kGpusOfDomain - 1) / kGpusOfDomain));
}

std::optional<OpKind> collective_of(const std::string& text) {
  const auto letters = [](std::string_view name) {
    std::string plain;
    for (const char c : name)
      if (std::isalpha(static_cast<unsigned char>(c)) != 0)
        plain += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
    return plain;
  };
  std::string plain = letters(text);
  if (plain.ends_with("perf")) plain.resize(plain.size() - 4);
  for (auto kind = OpKind::all_gather; is_collective(kind);
       kind = static_cast<OpKind>(static_cast<int>(kind) + 1))
    if (letters(name(kind)) == plain) return kind;
  return std::nullopt;
}

}  // namespace foregather::tasks
