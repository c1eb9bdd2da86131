#include "tasks/workload_files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/base/sha256.h"
#include "core/base/units.h"
#include "core/plan/workload_toml.h"
#include "sim/cost/hardware.h"

namespace foregather::tasks {
namespace {

constexpr Bytes kWhole = 64 * MiB;

void add_once(std::vector<std::string>& files, const std::string& path) {
  if (!path.empty() && std::ranges::find(files, path) == files.end()) files.push_back(path);
}

void add_bytes(std::ifstream& file, Bytes from, Bytes bytes, Sha256& digest) {
  file.seekg(from);
  std::string piece(static_cast<std::size_t>(std::min(bytes, MiB)), '\0');
  while (bytes > 0 && file.read(piece.data(), std::min(bytes, MiB))) {
    digest.update(std::string_view(piece).substr(0, static_cast<std::size_t>(file.gcount())));
    bytes -= file.gcount();
  }
}

std::string digest_of(const std::string& path, Bytes size) {
  std::ifstream file(path, std::ios::binary);
  Sha256 digest;
  if (size <= kWhole) {
    add_bytes(file, 0, size, digest);
  } else {
    digest.update(std::to_string(size));
    add_bytes(file, 0, kWhole / 2, digest);
    add_bytes(file, size - kWhole / 2, kWhole / 2, digest);
  }
  return digest.finish();
}

}  // namespace

std::vector<std::string> workload_files(const std::string& text, const std::string& source,
                                        const std::vector<std::string>& sets) {
  std::vector<std::string> files;
  const auto workload = plan::parse_own_keys(text, source, sets);
  if (!workload) return files;
  add_once(files, workload->model_config);
  for (const std::string& tower : workload->towers) add_once(files, tower);
  add_once(files, workload->deepspeed_config);
  add_once(files, workload->torchtitan_config);
  for (const std::string* part :
       {&workload->cluster.hardware, &workload->cluster.topology, &workload->cluster.fabric})
    for (const std::string& file : sim::hardware_files(*part)) add_once(files, file);
  return files;
}

FileDigests digests_of(const std::vector<std::string>& files, const std::string& known) {
  FileDigests digests;
  for (const std::string& path : files) {
    std::error_code error;
    if (path == known || !std::filesystem::is_regular_file(path, error)) continue;
    const auto size = std::filesystem::file_size(path, error);
    if (!error) digests.emplace_back(path, digest_of(path, static_cast<Bytes>(size)));
  }
  return digests;
}

}  // namespace foregather::tasks
