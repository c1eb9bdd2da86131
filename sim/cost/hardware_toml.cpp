// Hardware files: where they are, and the files that they start from.
#include <filesystem>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/file.h"
#include "core/base/suggest.h"
#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"
#include "sim/cost/hardware_reader.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/measured.h"
#include "sim/cost/measured_toml.h"

namespace foregather::sim {
namespace {

constexpr Bytes kLargestFile = 16 * MiB;
constexpr int kDeepestBase = 6;

std::vector<std::string_view> names_of(CatalogueKind kind) {
  std::vector<std::string_view> names;
  for (const CatalogueEntry& entry : catalogue(kind)) names.push_back(entry.name);
  return names;
}

constexpr std::string_view word_of(CatalogueKind kind) {
  switch (kind) {
    case CatalogueKind::topology: return "topology";
    case CatalogueKind::fabric: return "fabric";
    default: return "hardware";
  }
}

bool is_path(const std::string& name_or_path) {
  return name_or_path.find('/') != std::string::npos ||
         (name_or_path.size() > 5 && name_or_path.ends_with(".toml"));
}

/// What a file says as its base: a path is relative to the file.
std::string base_beside(const std::string& base, const std::string& file) {
  if (!is_path(base) || !is_path(file)) return base;
  const std::filesystem::path folder = std::filesystem::path(file).parent_path();
  return folder.empty() ? base : (folder / base).string();
}

Result<std::pair<std::string, std::string>> text_and_place(CatalogueKind kind,
                                                           const std::string& name_or_path) {
  if (is_path(name_or_path)) {
    Result<std::string> text = read_file(name_or_path, kLargestFile);
    if (!text) return tl::unexpected(text.error());
    return std::pair(std::move(*text), name_or_path);
  }
  for (const CatalogueEntry& entry : catalogue(kind)) {
    if (entry.name == name_or_path) {
      return std::pair(std::string(entry.text), fmt::format("{}.toml (built in)", entry.name));
    }
  }
  const std::vector<std::string_view> known = names_of(kind);
  return fail("unknown {} '{}'{}; known are {}, or give the path of a .toml file", word_of(kind),
              name_or_path, did_you_mean(name_or_path, known), joined(known));
}

/// What a file and its bases say.
struct Described {
  Hardware hardware;
  std::vector<bool> given = std::vector<bool>(figure_specs().size(), false);
  std::vector<run::WorkSample> measured;
};

Status read_into(std::string_view text, const std::string& place, Described& described, int depth);

/// A built-in file, read once: a fit starts from each some hundred thousand times.
Result<Described> built_in(const std::string& name, const std::string& text,
                           const std::string& place, int depth) {
  static std::mutex mutex;
  static std::map<std::string, Described> known;
  {
    const std::lock_guard lock(mutex);
    if (const auto found = known.find(name); found != known.end()) return found->second;
  }
  Described described;
  if (Status done = read_into(text, place, described, depth); !done)
    return tl::unexpected(done.error());
  const std::lock_guard lock(mutex);
  return known.emplace(name, std::move(described)).first->second;
}

Status read_into(std::string_view text, const std::string& place, Described& described, int depth) {
  const Result<HardwareFile> file = HardwareFile::parse(text, place);
  if (!file) return tl::unexpected(file.error());
  if (const auto base = file->base()) {
    const std::string& here = base->place;
    const std::string& base_name = base->name;
    if (base_name.empty()) return fail_at(here, "'base' must name a hardware");
    if (depth >= kDeepestBase) return fail_at(here, "'base' leads through too many files");
    Result<std::pair<std::string, std::string>> found =
        text_and_place(CatalogueKind::hardware, base_beside(base_name, place));
    if (!found) {
      return tl::unexpected(
          Error{here, fmt::format("'base': {}", found.error().text()), found.error().fault});
    }
    if (is_path(base_name)) {
      if (Status done = read_into(found->first, found->second, described, depth + 1); !done)
        return done;
    } else {
      Result<Described> base_says = built_in(base_name, found->first, found->second, depth + 1);
      if (!base_says) return tl::unexpected(base_says.error());
      described = std::move(*base_says);
    }
  }
  if (Status done = file->read(CatalogueKind::hardware, described.hardware, described.given); !done)
    return done;
  return read_measured(text, place, described.measured, described.hardware.residuals);
}

Status check_complete(const Hardware& hardware, const std::vector<bool>& given,
                      const std::string& place) {
  if (hardware.name.empty()) return fail_at(place, "has no name: write name = \"…\"");
  for (std::size_t i = 0; i < given.size(); ++i) {
    const FigureSpec& spec = figure_specs()[i];
    if (given[i] || spec.may_lack) continue;
    return fail_at(place,
                   "the figure '{}.{}' is missing; give it, or start from a built-in one with "
                   "base = \"NAME\"",
                   spec.section, spec.key);
  }
  return {};
}

Result<Hardware> completed(Described described, const std::string& place) {
  Hardware& hardware = described.hardware;
  if (Status done = check_complete(hardware, described.given, place); !done)
    return tl::unexpected(done.error());
  if (!described.measured.empty())
    hardware.measured =
        std::make_shared<const MeasuredTable>(std::move(described.measured), hardware);
  return std::move(hardware);
}

/// Reads a topology or a fabric over `hardware` and adds its name.
Status overlay(CatalogueKind kind, const std::string& name_or_path, Hardware& hardware) {
  const Result<std::pair<std::string, std::string>> found = text_and_place(kind, name_or_path);
  if (!found) return tl::unexpected(found.error());
  const Result<HardwareFile> file = HardwareFile::parse(found->first, found->second);
  if (!file) return tl::unexpected(file.error());
  const std::string_view section = only_section(kind);
  if (!file->has_section(section))
    return fail_at(found->second, "is no {}, expected a section [{}]", word_of(kind), section);
  std::vector<bool> given(figure_specs().size(), false);
  if (Status done = file->read(kind, hardware, given); !done) return done;
  hardware.name += "+" + std::filesystem::path(name_or_path).stem().string();
  return {};
}

}  // namespace

std::vector<std::string_view> hardware_names() { return names_of(CatalogueKind::hardware); }
std::vector<std::string_view> topology_names() { return names_of(CatalogueKind::topology); }
std::vector<std::string_view> fabric_names() { return names_of(CatalogueKind::fabric); }

Result<Hardware> parse_hardware(std::string_view text, const std::string& place) {
  Described described;
  if (Status done = read_into(text, place, described, 0); !done)
    return tl::unexpected(done.error());
  return completed(std::move(described), place);
}

Result<Hardware> load_hardware(const std::string& name_or_path) {
  const Result<std::pair<std::string, std::string>> found =
      text_and_place(CatalogueKind::hardware, name_or_path);
  if (!found) return tl::unexpected(found.error());
  const std::string &text = found->first, &place = found->second;
  if (is_path(name_or_path)) return parse_hardware(text, place);
  return built_in(name_or_path, text, place, 0).and_then([&](Described described) {
    return completed(std::move(described), place);
  });
}

std::vector<std::string> hardware_files(const std::string& name_or_path) {
  std::vector<std::string> files;
  std::string next = name_or_path;
  while (is_path(next) && files.size() <= static_cast<std::size_t>(kDeepestBase)) {
    files.push_back(next);
    const Result<std::string> text = read_file(next, kLargestFile);
    if (!text) break;
    const Result<HardwareFile> file = HardwareFile::parse(*text, next);
    if (!file) break;
    const auto base = file->base();
    next = base ? base_beside(base->name, next) : "";
  }
  return files;
}

Status apply_topology(Hardware& hardware, const std::string& name_or_path) {
  const bool had_nvlink = hardware.has_nvlink();
  Hardware changed = hardware;
  if (Status done = overlay(CatalogueKind::topology, name_or_path, changed); !done) return done;
  const bool brings_links = changed.intra.links != hardware.intra.links;
  if (changed.has_nvlink() && !had_nvlink && !brings_links)
    return fail("topology '{}' needs NVLink, and {} has none", name_or_path, hardware.name);
  hardware = std::move(changed);
  return {};
}

// What a fabric need not say is not as the one before it had it.
Status apply_fabric(Hardware& hardware, const std::string& name_or_path) {
  Hardware plain;
  for (const FigureSpec& spec : figure_specs())
    if (spec.section == "inter" && spec.may_lack) spec.field(hardware) = spec.field(plain);
  return overlay(CatalogueKind::fabric, name_or_path, hardware);
}

Generation Hardware::generation() const {
  if (compute.compute_capability < 80) return Generation::volta;
  if (compute.compute_capability < 90) return Generation::ampere;
  if (compute.compute_capability < 100) return Generation::hopper;
  return Generation::blackwell;
}

}  // namespace foregather::sim
