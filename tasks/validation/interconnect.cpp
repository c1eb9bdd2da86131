#include "tasks/validation/interconnect.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string_view>

#include "tasks/machine.h"
#include "tasks/validation/row_machine.h"

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

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
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
  constexpr std::string_view kMesh[] = {"direct", "mesh", "point-to-point", "point to point"};
  const bool says_pcie = has(text, "pcie") && !has(text, "nvlink") && !has(text, "nvswitch");
  if (!has_nvlink || says_pcie) {
    if (has_any(text, kNoPeers)) return pcie_of(text, hardware) + "_host";
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

/// "8x200gb/s" -> 8, 200; "efa 3200 gbps" -> 1, 3200; "4x hdr" -> 4, 200.
struct Adapters {
  int count = 1;
  double gbps = 0;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The number that ends before `end`, spaces between them; moves `end` to its beginning.
std::optional<double> number_before(std::string_view text, std::size_t& end) {
  std::size_t last = end;
  while (last > 0 && text[last - 1] == ' ') --last;
  std::size_t first = last;
  while (first > 0 && is_digit(text[first - 1])) --first;
  double value = 0;
  if (std::from_chars(text.data() + first, text.data() + last, value).ec != std::errc())
    return std::nullopt;
  end = first;
  return value;
}

int count_before(std::string_view text, std::size_t end) {
  while (end > 0 && text[end - 1] == ' ') --end;
  if (end == 0 || text[end - 1] != 'x') return 1;
  const auto count = number_before(text, --end);
  return count ? static_cast<int>(std::clamp(*count, 1.0, 64.0)) : 1;
}

std::optional<Adapters> adapters_of(std::string_view text) {
  for (const std::string_view unit : {"gb/s", "gbps", "gbit", "gbe"}) {
    std::size_t at = text.find(unit);
    if (at == std::string_view::npos) continue;
    const auto gbps = number_before(text, at);
    if (gbps && *gbps > 0) return Adapters{count_before(text, at), *gbps};
  }
  constexpr std::pair<std::string_view, double> kSpeeds[] = {
      {"edr", 100}, {"hdr", 200}, {"ndr", 400}, {"xdr", 800}};
  for (const auto& [name, gbps] : kSpeeds)
    if (const auto at = text.find(name); at != std::string_view::npos)
      return Adapters{count_before(text, at), gbps};
  return std::nullopt;
}

/// Of one GPU. A total of a node ("EFA 3200Gb/s") is shared by its eight GPUs.
double gbps_of(const Adapters& adapters, int local) {
  constexpr double kFastestAdapter = 800;
  constexpr double kGpusOfNode = 8;
  if (adapters.count == 1 && adapters.gbps > kFastestAdapter) return adapters.gbps / kGpusOfNode;
  const bool is_stated = adapters.count > 1;
  return is_stated ? adapters.gbps * std::min(1.0, adapters.count / static_cast<double>(local))
                   : adapters.gbps;
}

bool is_one_process(std::string_view text) {
  if (has(text, "1 process") || has(text, "one process") || has(text, "single process"))
    return true;
  const auto flag = text.find("-g ");
  return flag != std::string_view::npos && flag + 3 < text.size() && is_digit(text[flag + 3]) &&
         text[flag + 3] != '1';
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
    if (const auto adapters = adapters_of(words)) cluster.fabric_gbps = gbps_of(*adapters, local);
  }
  auto hardware = load_machine(cluster);
  if (!hardware) return hardware;
  if (is_one_process(words)) hardware->nccl.launch_floor = kFloorOfOneProcess * local;
  return hardware;
}

int domains_of(const std::string& gpu, const std::string& text, int ranks, int nodes) {
  constexpr std::string_view kDomains[] = {"nvl72", "mnnvl", "multi-node nvlink"};
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
