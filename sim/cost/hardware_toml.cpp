// The figures of a hardware file; measured_toml.cpp reads what was measured.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>
#include <toml++/toml.h>

#include "core/base/file.h"
#include "core/base/suggest.h"
#include "core/base/toml_depth.h"
#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/measured.h"
#include "sim/cost/measured_toml.h"

namespace foregather::sim {

namespace {

constexpr Bytes kLargestFile = 16 * MiB;
constexpr int kDeepestBase = 6;

constexpr std::array<std::pair<std::string_view, IntraLink>, 5> kIntraLinks{{
    {"nvswitch", IntraLink::nvswitch},
    {"nvlink", IntraLink::nvlink},
    {"pcie_p2p", IntraLink::pcie_p2p},
    {"pcie_host", IntraLink::pcie_host},
    {"shared_memory", IntraLink::shared_memory},
}};
constexpr std::array<std::pair<std::string_view, InterLink>, 6> kInterLinks{{
    {"none", InterLink::none},
    {"infiniband", InterLink::infiniband},
    {"roce", InterLink::roce},
    {"efa", InterLink::efa},
    {"tcp", InterLink::tcp},
    {"slingshot", InterLink::slingshot},
}};

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::string_view word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

/// Sections and keys that a file of each kind may hold.
struct Allowed {
  std::string_view only_section;  ///< empty: all
  bool base;                      ///< whether it may name a base and has a name of its own
};

constexpr Allowed allowed_in(CatalogueKind kind) {
  switch (kind) {
    case CatalogueKind::topology: return {"intra", false};
    case CatalogueKind::fabric: return {"inter", false};
    default: return {"", true};
  }
}

// What the sources of intervals that were counted say.
constexpr std::string_view kValidated = "docs/validation.md";

/// Reads one file into a Hardware that may already hold a base's figures.
class HardwareReader {
 public:
  HardwareReader(std::string place, CatalogueKind kind, Hardware& hardware,
                 std::vector<bool>& given)
      : place_(std::move(place)), allowed_(allowed_in(kind)), hardware_(hardware), given_(given) {}

  Status read(const toml::table& root) {
    for (const auto& [key, node] : root) {
      const std::string_view name = key.str();
      if ((name == "base" || is_measured_section(name)) && allowed_.base) continue;
      if ((name == "name" && allowed_.base) || name == "description") {
        const std::optional<std::string> text = node.value<std::string>();
        if (!node.is_string() || text->empty()) {
          return fail_at(at(key.source()), "'{}' must be a text in quotes", name);
        }
        if (name == "name")
          hardware_.name = *text;
        else if (allowed_.base)
          hardware_.description = *text;
        else
          hardware_.description += ", " + *text;
        continue;
      }
      const std::vector<std::string_view> sections = section_names();
      if (std::find(sections.begin(), sections.end(), name) == sections.end()) {
        std::vector<std::string_view> known{"description"};
        if (allowed_.base) known = {"name", "description", "base"};
        known.insert(known.end(), sections.begin(), sections.end());
        return fail_at(at(key.source()), "unknown key '{}'{}; expected one of {}", name,
                       did_you_mean(name, known), joined(known));
      }
      const toml::table* section = node.as_table();
      if (section == nullptr) {
        return fail_at(at(key.source()), "'{}' must be a section: write [{}]", name, name);
      }
      if (Status done = read_section(name, *section); !done) return done;
    }
    return {};
  }

 private:
  std::vector<std::string_view> section_names() const {
    std::vector<std::string_view> names;
    for (const FigureSpec& spec : figure_specs()) {
      if (!allowed_.only_section.empty() && spec.section != allowed_.only_section) continue;
      if (names.empty() || names.back() != spec.section) names.push_back(spec.section);
    }
    return names;
  }

  std::string at(const toml::source_region& region) const {
    return fmt::format("{}:{}:{}", place_, region.begin.line, region.begin.column);
  }

  /// A key of the section that is spelled like `name`, or where it is now if it was moved or stands
  /// in a section that is not its own.
  std::string suggested(std::string_view section, std::string_view name,
                        std::span<const std::string_view> known) const {
    if (section == "nccl" && name == "ll_hop_bandwidth") return ", it is 'inter.ll_bandwidth' now";
    for (const FigureSpec& spec : figure_specs()) {
      const bool allowed = allowed_.only_section.empty() || spec.section == allowed_.only_section;
      if (allowed && spec.key == name) {
        return fmt::format(", did you mean '{}.{}'?", spec.section, name);
      }
    }
    return did_you_mean(name, known);
  }

  Status read_section(std::string_view section, const toml::table& table) {
    const bool has_kind = section == "intra" || section == "inter";
    for (const auto& [key, node] : table) {
      const std::string_view name = key.str();
      if (has_kind && name == "kind") {
        if (Status done = read_kind(section, key, node); !done) return done;
        continue;
      }
      std::vector<std::string_view> known;
      std::optional<std::size_t> row;
      for (std::size_t i = 0; i < figure_specs().size(); ++i) {
        if (figure_specs()[i].section != section) continue;
        known.push_back(figure_specs()[i].key);
        if (figure_specs()[i].key == name) row = i;
      }
      if (has_kind) known.push_back("kind");
      if (!row) {
        return fail_at(at(key.source()), "unknown key '{}.{}'{}; [{}] has {}", section, name,
                       suggested(section, name, known), section, joined(known));
      }
      if (Status done = read_figure(figure_specs()[*row], key, node); !done) return done;
      given_[*row] = true;
    }
    return {};
  }

  /// The inline table of a figure, with its source checked.
  Result<const toml::table*> figure_table(std::string_view section, const toml::key& key,
                                          const toml::node& node, bool has_unit) {
    const toml::table* table = node.as_table();
    if (table == nullptr) {
      return fail_at(at(key.source()),
                     "'{}.{}' must state its source: {{ value = …, {}source = \"…\" }}", section,
                     key.str(), has_unit ? "unit = \"…\", " : "");
    }
    constexpr std::array<std::string_view, 3> with_unit{"value", "unit", "source"};
    constexpr std::array<std::string_view, 2> without_unit{"value", "source"};
    const std::span<const std::string_view> parts =
        has_unit ? std::span<const std::string_view>(with_unit)
                 : std::span<const std::string_view>(without_unit);
    for (const auto& [part, ignored] : *table) {
      if (std::find(parts.begin(), parts.end(), part.str()) == parts.end()) {
        return fail_at(at(part.source()), "unknown key '{}'{}; a figure has {}", part.str(),
                       did_you_mean(part.str(), parts),
                       joined(std::vector<std::string_view>(parts.begin(), parts.end())));
      }
    }
    const toml::node* source = table->get("source");
    const std::optional<std::string> text =
        source != nullptr ? source->value<std::string>() : std::nullopt;
    if (!text || text->find_first_not_of(" \t") == std::string::npos) {
      return fail_at(at(key.source()),
                     "'{}.{}' has no source: say where the figure comes from, source = \"…\"",
                     section, key.str());
    }
    if (table->get("value") == nullptr) {
      return fail_at(at(key.source()), "'{}.{}' has no value", section, key.str());
    }
    return table;
  }

  Status read_figure(const FigureSpec& spec, const toml::key& key, const toml::node& node) {
    const Result<const toml::table*> table = figure_table(spec.section, key, node, true);
    if (!table) return tl::unexpected(table.error());
    const toml::node& value = *(*table)->get("value");
    const std::optional<double> number =
        value.is_number() ? value.value<double>() : std::optional<double>();
    if (!number) {
      return fail_at(at(value.source()), "'{}.{}' must be a number", spec.section, spec.key);
    }
    const toml::node* unit = (*table)->get("unit");
    const std::optional<std::string> unit_text =
        unit != nullptr ? unit->value<std::string>() : std::nullopt;
    const std::optional<double> factor =
        unit_text ? unit_factor(spec.dimension, *unit_text) : std::nullopt;
    if (!factor) {
      return fail_at(at(unit != nullptr ? unit->source() : key.source()),
                     "'{}.{}' needs a unit: {}", spec.section, spec.key, unit_list(spec.dimension));
    }
    const double base = *number * *factor;
    const bool is_none = spec.or_zero && base == 0;
    if (!is_none && !(base >= spec.least && base <= spec.most)) {
      return fail_at(at(value.source()), "'{}.{}' = {} {} is not plausible, expected {}{} to {} {}",
                     spec.section, spec.key, *number, *unit_text, spec.or_zero ? "0, or " : "",
                     spec.least / *factor, spec.most / *factor, *unit_text);
    }
    double& field = spec.field(hardware_);
    field = base;
    if (&field == &hardware_.interval.compute_high)
      hardware_.interval.is_validated =
          (*table)->get("source")->value_or(std::string()).find(kValidated) != std::string::npos;
    return {};
  }

  Status read_kind(std::string_view section, const toml::key& key, const toml::node& node) {
    const Result<const toml::table*> table = figure_table(section, key, node, false);
    if (!table) return tl::unexpected(table.error());
    const toml::node& value = *(*table)->get("value");
    const std::string text = value.value<std::string>().value_or("");
    std::vector<std::string_view> known;
    const auto find = [&](const auto& kinds, auto& out) {
      for (const auto& [kind_name, kind] : kinds) {
        known.push_back(kind_name);
        if (kind_name == text) {
          out = kind;
          return true;
        }
      }
      return false;
    };
    const bool found = section == "intra" ? find(kIntraLinks, hardware_.intra.kind)
                                          : find(kInterLinks, hardware_.inter.kind);
    if (found) return {};
    return fail_at(at(value.source()), "unknown kind '{}'{}; expected one of {}", text,
                   did_you_mean(text, known), joined(known));
  }

  std::string place_;
  Allowed allowed_;
  Hardware& hardware_;
  std::vector<bool>& given_;
};

Result<toml::table> parse_toml(std::string_view text, const std::string& place) {
  if (const Status shallow = check_toml_depth(text, place); !shallow)
    return tl::unexpected(shallow.error());
  try {
    return toml::parse(text, place);
  } catch (const toml::parse_error& error) {
    return fail_at(
        fmt::format("{}:{}:{}", place, error.source().begin.line, error.source().begin.column),
        "{}", error.description());
  }
}

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
  const Result<toml::table> root = parse_toml(text, place);
  if (!root) return tl::unexpected(root.error());
  if (const toml::node* base = root->get("base"); base != nullptr) {
    const auto& begin = base->source().begin;
    const std::string here = fmt::format("{}:{}:{}", place, begin.line, begin.column);
    const std::string base_name = base->value<std::string>().value_or("");
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
  if (Status done =
          HardwareReader(place, CatalogueKind::hardware, described.hardware, described.given)
              .read(*root);
      !done)
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
  const Result<toml::table> root = parse_toml(found->first, found->second);
  if (!root) return tl::unexpected(root.error());
  const std::string_view section = allowed_in(kind).only_section;
  if (!root->contains(section))
    return fail_at(found->second, "is no {}, expected a section [{}]", word_of(kind), section);
  std::vector<bool> given(figure_specs().size(), false);
  if (Status done = HardwareReader(found->second, kind, hardware, given).read(*root); !done)
    return done;
  hardware.name += "+" + std::filesystem::path(name_or_path).stem().string();
  return {};
}

}  // namespace

std::string_view name(IntraLink kind) { return kIntraLinks[static_cast<std::size_t>(kind)].first; }

std::string_view name(InterLink kind) { return kInterLinks[static_cast<std::size_t>(kind)].first; }

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
  const auto& [text, place] = *found;
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
    const Result<toml::table> root = parse_toml(*text, next);
    if (!root) break;
    next = base_beside((*root)["base"].value<std::string>().value_or(""), next);
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
