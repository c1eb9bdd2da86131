// A config.json whose values are asked for by key, and checked.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.h"
#include "core/plan/workload.h"

namespace foregather::plan {

/// One object of a JSON document: the outermost, or a section. All sections of a document share its
/// first error, which sticks: later answers are arbitrary but valid, and error() tells. Errors have
/// the place of the key: FILE:LINE:COL, or that of a key of [model].
///
/// `keys` are the spellings of one key, separated by spaces; the first that the object has is read,
/// and the first is what messages about a missing one name.
class ConfigFile {
 public:
  static Result<ConfigFile> read(const std::string& path);
  /// The keys of a workload's [model] over this document.
  void override_with(std::span<const ModelKey> keys);
  /// A document that has only keys of [model].
  static ConfigFile of_keys(const std::string& path, std::span<const ModelKey> keys);

  /// The object under `key`; an empty one if there is none. In sections a missing size takes its
  /// fallback `usual`, where the outermost object must say it.
  ConfigFile section(std::string_view key) const;
  bool is_section() const { return !prefix_.empty(); }

  const std::optional<Error>& error() const;
  /// An error at the key, or at the document's start if it has no such key.
  void complain(std::string_view keys, std::string message) const;

  /// FILE:LINE:COL of the key, or of the document if it has no such key.
  std::string place(std::string_view keys) const;

  bool has(std::string_view keys) const;
  bool has_null(std::string_view key) const;
  bool is_object(std::string_view key) const;
  /// "section.key", of the spelling that the object has.
  std::string label(std::string_view keys) const;
  /// The value for a message, cut to a readable length.
  std::string shown(std::string_view keys) const;

  /// An integer of 1 … most (or least … most). An error if there is none and no fallback.
  std::int64_t size(std::string_view keys, std::int64_t most, std::optional<std::int64_t> fallback,
                    std::int64_t least = 1) const;
  bool flag(std::string_view keys, bool fallback) const;
  /// A rate in [0, 1).
  double rate(std::string_view keys, double fallback) const;
  /// A number in [least, most].
  double number(std::string_view keys, double least, double most, double fallback) const;
  std::string text(std::string_view keys, std::string_view fallback) const;
  /// The first of a list of strings; nothing if the object has no such key.
  std::optional<std::string> first_text(std::string_view key) const;
  /// All of a list of strings.
  std::vector<std::string> texts(std::string_view key) const;
  /// An integer, or the first of a list of integers.
  std::int64_t first_size(std::string_view key, std::int64_t most,
                          std::optional<std::int64_t> fallback) const;
  /// Members of the object under `key`; nothing if there is none.
  std::optional<std::int64_t> members(std::string_view key) const;
  /// A list of integers from 0.
  std::vector<std::int64_t> sizes(std::string_view key) const;

 private:
  struct Document;
  std::string_view spelling(std::string_view keys) const;

  std::shared_ptr<Document> document_;
  std::string pointer_;  ///< JSON pointer of the object
  std::string prefix_;   ///< "text_config." for messages
};

/// A text for a message, as JSON, cut to a readable length.
std::string shown_text(std::string_view text);

}  // namespace foregather::plan
