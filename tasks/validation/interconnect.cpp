#include "tasks/validation/interconnect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "tasks/machine.h"
#include "tasks/validation/row_machine.h"
#include "tasks/validation/words.h"

namespace foregather::tasks {
namespace {

bool has(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

template <std::size_t N>
bool has_any(std::string_view text, const std::string_view (&parts)[N]) {
  return std::any_of(std::begin(parts), std::end(parts),
                     [&](std::string_view part) { return has(text, part); });
}

std::string pcie_of(std::string_view text, std::string_view hardware) {
  for (const char generation : {'3', '4', '5'})
    for (const std::string_view word : {"gen", "gen ", "pcie", "pcie ", "pcie-"})
      if (has(text, std::string(word) + generation)) return fmt::format("pcie{}", generation);
  return fmt::format("pcie{}", pcie_generation(hardware));
}

std::string topology_of(std::string_view text, std::string_view hardware, bool has_nvlink) {
  constexpr std::string_view kNoPeers[] = {"no p2p",       "no peer",      "without p2p",
                                           "without peer", "p2p disabled", "shm"};
  constexpr std::string_view kPeers[] = {"p2p", "peer access", "peer-to-peer"};
  constexpr std::string_view kSockets[] = {"dual socket", "dual-socket", "two sockets", "2 sockets",
                                           "cross-socket"};
  constexpr std::string_view kMesh[] = {"direct", "mesh", "point-to-point", "point to point"};
  const bool says_pcie = has(text, "pcie") && !has(text, "nvlink") && !has(text, "nvswitch");
  if (!has_nvlink || says_pcie) {
    if (has_any(text, kNoPeers)) return pcie_of(text, hardware) + "_host";
    if (has_any(text, kSockets) && pcie_of(text, hardware) != "pcie3")
      return pcie_of(text, hardware) + "_dual_socket";
    if (has_any(text, kPeers) || has_nvlink) return pcie_of(text, hardware) + "_p2p";
    return {};
  }
  if (has(text, "nvswitch")) return "nvswitch";
  return has_any(text, kMesh) ? "nvlink_mesh" : "";
}

struct Word {
  std::string_view word, fabric;
};
/// The first that stands in the text.
constexpr Word kFabrics[] = {
    {"tcpxo", "tcpxo"},       {"fastrak", "tcpxo"},       {"a3 mega", "tcpxo"},
    {"tcpx", "tcpx"},         {"a3 high", "tcpx"},        {"efa", "efa_3200"},
    {"p5", "efa_3200"},       {"slingshot", "slingshot"}, {"roce", "roce_400"},
    {"spectrum", "roce_400"}, {"hdr", "ib_hdr"},          {"edr", "ib_hdr"},
    {"ndr", "ib_ndr"},        {"infiniband", ""},         {"ethernet", "ethernet_100"},
    {"tcp", "ethernet_100"},  {"socket", "ethernet_100"},
};

std::string fabric_of(std::string_view text, const sim::Hardware& hardware) {
  if (has(text, "p4d")) return "efa_400";
  for (const Word& known : kFabrics) {
    if (!has(text, known.word)) continue;
    if (!known.fabric.empty()) return std::string(known.fabric);
    return hardware.generation() >= sim::Generation::hopper ? "ib_ndr" : "ib_hdr";
  }
  return {};
}

/// "8x200Gb/s" -> 8, 200; "EFA 3200 Gbps" -> 1, 3200; "4x HDR" -> 4, 200.
struct Adapters {
  std::optional<int> count;  ///< of a node, as far as it is stated
  double gbps = 0;           ///< of each
  bool is_of_gpu = false;    ///< each GPU has so many
};

/// The number that ends before `end`, spaces between them; moves `end` to its beginning.
std::optional<double> number_before(std::string_view text, std::size_t& end) {
  std::size_t last = end;
  while (last > 0 && text[last - 1] == ' ') --last;
  std::size_t first = last;
  while (first > 0 && (is_digit(text[first - 1]) || text[first - 1] == '.')) --first;
  double value = 0;
  if (std::from_chars(text.data() + first, text.data() + last, value).ec != std::errc())
    return std::nullopt;
  end = first;
  return value;
}

std::optional<int> count_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  if (end == 0 || text[end - 1] != 'x') return std::nullopt;
  const auto count = number_before(text, --end);
  if (!count) return std::nullopt;
  return static_cast<int>(std::clamp(*count, 1.0, 64.0));
}

/// "4x" before the name of adapters: "4x EDR InfiniBand 100".
std::optional<int> count_of_name(std::string_view text) {
  for (const std::string_view name :
       {"edr", "hdr", "ndr", "xdr", "efa", "infiniband", "connectx", "roce"})
    if (const auto at = text.find(name); at != std::string_view::npos)
      if (const auto count = count_before(text, at)) return count;
  return std::nullopt;
}

/// Of what stands between signs that part a description.
std::optional<Adapters> adapters_of_part(std::string_view text, std::string_view words) {
  struct Unit {
    std::string_view word;
    double gbps;
  };
  // Bytes have a capital letter, if they are meant.
  constexpr Unit kUnits[] = {{"GB/s", 8}, {"gb/s", 1},    {"gbps", 1},   {"gbit", 1},
                             {"gbe", 1},  {"tb/s", 1000}, {"tbps", 1000}};
  for (const Unit& unit : kUnits) {
    std::size_t at = (unit.word == "GB/s" ? text : words).find(unit.word);
    if (at == std::string_view::npos) continue;
    const auto speed = number_before(words, at);
    if (!speed || *speed <= 0) continue;
    const auto count = count_before(words, at);
    return Adapters{count ? count : count_of_name(words.substr(0, at)), *speed * unit.gbps};
  }
  constexpr std::pair<std::string_view, double> kSpeeds[] = {
      {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}};
  for (const auto& [name, gbps] : kSpeeds)
    if (const auto at = words.find(name); at != std::string_view::npos) {
      double speed = 0;  // of "HDR100", half of one
      const std::string_view rest = words.substr(at + name.size());
      const bool says_speed =
          std::from_chars(rest.data(), rest.data() + rest.size(), speed).ec == std::errc() &&
          speed >= 25;
      return Adapters{count_before(words, at), says_speed ? speed : gbps};
    }
  return std::nullopt;
}

/// What is said of links inside a node ("NVLink 900 GB/s") counts only where nothing else is said.
std::optional<Adapters> adapters_of(std::string_view text) {
  constexpr std::string_view kEachGpu[] = {"per gpu", "/gpu", "each gpu"};
  constexpr std::string_view kInside[] = {"nvlink", "nvswitch", "pcie", "hbm"};
  std::optional<Adapters> any;
  for (const bool inside : {false, true})
    for (std::size_t begin = 0; begin < text.size() && !any;) {
      const std::size_t end = std::min(text.find_first_of("+,;()", begin), text.size());
      const std::string_view part = text.substr(begin, end - begin);
      const std::string words = lower(part);
      if (has_any(words, kInside) == inside) any = adapters_of_part(part, words);
      begin = end + 1;
    }
  if (any) any->is_of_gpu = has_any(lower(text), kEachGpu);
  return any;
}

/// Of one GPU. A total of a node ("EFA 3200Gb/s") is shared by its eight GPUs; what AWS states
/// without a count is one, and a TCP network's is the node's one adapter.
double gbps_of(const Adapters& adapters, std::string_view fabric, int local) {
  constexpr double kFastestAdapter = 800;
  constexpr double kGpusOfNode = 8;
  if (adapters.is_of_gpu) return adapters.gbps * adapters.count.value_or(1);
  if (adapters.count && *adapters.count > kGpusOfNode)
    return adapters.gbps * *adapters.count / std::max<double>(kGpusOfNode, local);
  if (adapters.count)
    return adapters.gbps * std::min(1.0, *adapters.count / static_cast<double>(local));
  if (fabric == "ethernet_100") return adapters.gbps / local;
  const bool is_total = adapters.gbps > kFastestAdapter || fabric.starts_with("efa");
  return is_total ? adapters.gbps / kGpusOfNode : adapters.gbps;
}

bool is_one_process(std::string_view text) {
  if (has(text, "1 process") || has(text, "one process") || has(text, "single process"))
    return true;
  const auto flag = text.find("-g ");
  return flag != std::string_view::npos && flag + 3 < text.size() && is_digit(text[flag + 3]) &&
         text[flag + 3] != '1';
}

/// Multicast in the switch, switched off: the links are those of NVLink.
bool is_without_nvls(std::string_view text) {
  constexpr std::string_view kWords[] = {"nvls_enable=0", "no nvls", "without nvls",
                                         "nvls disabled", "nvls off"};
  return has_any(text, kWords);
}

/// One process launches on its GPUs one after the other, which sets a floor: about 4.5 µs a GPU in
/// the tables that say so.
constexpr double kFloorOfOneProcess = 4500;

}  // namespace

Result<sim::Hardware> machine_of_interconnect(const std::string& gpu, const std::string& text,
                                              int ranks, int trays) {
  plan::Cluster cluster;
  const int nodes = domains_of(gpu, text, ranks, trays);
  cluster.hardware = hardware_of_gpu(gpu);
  if (cluster.hardware.empty()) return fail("no hardware file for the GPU '{}'", gpu);
  const auto board = load_machine(cluster);
  if (!board) return board;
  const std::string words = lower(text);
  const int local = std::max(1, ranks / std::max(1, nodes));
  cluster.topology = topology_of(words, cluster.hardware, board->has_nvlink());
  if (nodes > 1) {
    cluster.fabric = fabric_of(words, *board);
    // Its own adapters are shared by two dies.
    if (cluster.hardware == "mi250x" && cluster.fabric == "slingshot") cluster.fabric.clear();
    if (const auto adapters = adapters_of(text))
      cluster.fabric_gbps = gbps_of(*adapters, cluster.fabric, local);
  }
  auto hardware = load_machine(cluster);
  if (!hardware) return hardware;
  if (is_without_nvls(words) && hardware->intra.kind == sim::IntraLink::nvswitch)
    hardware->intra.kind = sim::IntraLink::nvlink;
  if (is_one_process(words)) hardware->nccl.launch_floor = kFloorOfOneProcess * local;
  return hardware;
}

int domains_of(const std::string& gpu, const std::string& text, int ranks, int nodes) {
  constexpr std::string_view kDomains[] = {"nvl72", "mnnvl", "multi-node nvlink",
                                           "single nvlink domain", "one nvlink domain"};
  constexpr int kGpusOfDomain = 72;
  if (!has_any(lower(gpu + ' ' + text), kDomains)) return nodes;
  return std::min(nodes, (ranks + kGpusOfDomain - 1) / kGpusOfDomain);
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
