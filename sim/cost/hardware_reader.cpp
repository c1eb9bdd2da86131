#include "sim/cost/hardware_reader.h"

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>
#include <toml++/toml.h>

#include "core/base/suggest.h"
#include "core/base/toml_depth.h"
#include "sim/cost/hardware_schema.h"
#include "sim/cost/measured_toml.h"

namespace foregather::sim {
namespace {

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

}  // namespace

std::string_view only_section(CatalogueKind kind) { return allowed_in(kind).only_section; }

struct HardwareFile::Content {
  toml::table root;
  std::string place;
};

HardwareFile::HardwareFile(std::unique_ptr<Content> content) : content_(std::move(content)) {}
HardwareFile::HardwareFile(HardwareFile&& other) noexcept = default;
HardwareFile::~HardwareFile() = default;

Result<HardwareFile> HardwareFile::parse(std::string_view text, const std::string& place) {
  if (const Status shallow = check_toml_depth(text, place); !shallow)
    return tl::unexpected(shallow.error());
  try {
    return HardwareFile(std::make_unique<Content>(Content{toml::parse(text, place), place}));
  } catch (const toml::parse_error& error) {
    return fail_at(
        fmt::format("{}:{}:{}", place, error.source().begin.line, error.source().begin.column),
        "{}", error.description());
  }
}

std::optional<HardwareFile::Base> HardwareFile::base() const {
  const toml::node* const base = content_->root.get("base");
  if (base == nullptr) return std::nullopt;
  const auto& begin = base->source().begin;
  return Base{base->value<std::string>().value_or(""),
              fmt::format("{}:{}:{}", content_->place, begin.line, begin.column)};
}

bool HardwareFile::has_section(std::string_view section) const {
  return content_->root.contains(section);
}

Status HardwareFile::read(CatalogueKind kind, Hardware& hardware, std::vector<bool>& given) const {
  return HardwareReader(content_->place, kind, hardware, given).read(content_->root);
}

std::string joined(const std::vector<std::string_view>& words) {
  std::string out;
  for (std::string_view word : words) {
    if (!out.empty()) out += ", ";
    out += word;
  }
  return out;
}

std::string_view name(IntraLink kind) { return kIntraLinks[static_cast<std::size_t>(kind)].first; }

std::string_view name(InterLink kind) { return kInterLinks[static_cast<std::size_t>(kind)].first; }

}  // namespace foregather::sim
