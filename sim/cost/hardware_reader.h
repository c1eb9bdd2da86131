// What one hardware file says, without the files that it starts from.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cost/catalogue.h"
#include "sim/cost/hardware.h"

namespace foregather::sim {

/// The one section that a topology or a fabric has; empty: a hardware file may have all.
std::string_view only_section(CatalogueKind kind);

/// "a, b, c", for messages.
std::string joined(const std::vector<std::string_view>& words);

class HardwareFile {
 public:
  /// Errors: what is no TOML, at its line of `place`.
  static Result<HardwareFile> parse(std::string_view text, const std::string& place);
  HardwareFile(HardwareFile&& other) noexcept;
  HardwareFile& operator=(HardwareFile&&) = delete;
  ~HardwareFile();

  /// What it starts from.
  struct Base {
    std::string name;   ///< empty: it is no text
    std::string place;  ///< FILE:LINE:COLUMN
  };
  std::optional<Base> base() const;
  bool has_section(std::string_view section) const;
  /// Reads names and figures into `hardware`, which may hold those of the base, and notes in
  /// `given` (one a row of figure_specs()) which there are. Measured sections are left to
  /// read_measured(). Errors: keys, values and units that cannot be, at their places.
  Status read(CatalogueKind kind, Hardware& hardware, std::vector<bool>& given) const;

 private:
  struct Content;
  explicit HardwareFile(std::unique_ptr<Content> content);
  std::unique_ptr<Content> content_;
};

}  // namespace foregather::sim
