#include "core/store/reader.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/store/comparisons.h"
#include "core/store/loader.h"
#include "core/store/location.h"
#include "core/store/schema.h"

namespace foregather::store {
namespace {

using namespace foregather::run;

struct Names {
  std::vector<std::string> names;
  std::vector<std::int64_t> ids;
};

Result<Names> names_of(Database& database) {
  auto query = database.prepare("SELECT id, name FROM run ORDER BY id");
  if (!query) return tl::unexpected(query.error());
  Names found;
  constexpr std::size_t kMostRuns = 1'000'000;
  while (found.ids.size() < kMostRuns) {
    const auto more = query->next();
    if (!more) return tl::unexpected(more.error());
    if (!*more) break;
    found.ids.push_back(query->integer(0));
    found.names.emplace_back(query->text(1));
  }
  return found;
}

// Says what SQLite would call "unable to open database file".
Status check_regular(const std::string& path) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status))
    return fail_at(path, "cannot be read: No such file or directory");
  if (std::filesystem::is_directory(status))
    return fail_at(path, "is a directory, expected a run database");
  if (!std::filesystem::is_regular_file(status))
    return fail_at(path, "is not a regular file, expected a run database");
  return {};
}

struct Opened {
  Database database;
  std::int64_t version = 0;
  Names runs;
};

Result<Opened> open_checked(const std::string& path) {
  if (const Status regular = check_regular(path); !regular) return tl::unexpected(regular.error());
  auto database = Database::open(path);
  if (!database) return tl::unexpected(database.error());
  const auto version = check_schema(*database);
  if (!version) return tl::unexpected(version.error());
  auto runs = names_of(*database);
  if (!runs) return tl::unexpected(runs.error());
  return Opened{std::move(*database), *version, std::move(*runs)};
}

Result<std::size_t> choose(const std::string& path, const Names& runs,
                           const std::optional<std::string>& name) {
  if (runs.names.empty()) return fail_at(path, "holds no run");
  if (!name) {
    if (runs.names.size() == 1) return std::size_t{0};
    return fail_at(path, "holds {} runs, choose one as {}:NAME: {}", runs.names.size(), path,
                   fmt::join(runs.names, ", "));
  }
  const auto found = std::find(runs.names.begin(), runs.names.end(), *name);
  if (found != runs.names.end()) return static_cast<std::size_t>(found - runs.names.begin());
  return fail_at(path, "holds no run '{}', only {}", *name, fmt::join(runs.names, ", "));
}

struct Chosen {
  Database database;
  std::int64_t version = 0, id = 0;
};

Result<Chosen> open_chosen(const std::string& text) {
  const Location location = parse_location(text);
  auto opened = open_checked(location.path);
  if (!opened) return tl::unexpected(opened.error());
  const auto chosen = choose(location.path, opened->runs, location.name);
  if (!chosen) return tl::unexpected(chosen.error());
  return Chosen{std::move(opened->database), opened->version, opened->runs.ids[*chosen]};
}

}  // namespace

bool is_database(std::string_view content) {
  using namespace std::string_view_literals;
  return content.starts_with("SQLite format 3\0"sv);
}

// Source: the header of SQLite's file format.
bool is_run_database(std::string_view content) {
  constexpr std::size_t kApplicationAt = 68, kBytes = 4;
  if (!is_database(content) || content.size() < kApplicationAt + kBytes) return false;
  std::int64_t id = 0;
  for (std::size_t i = 0; i < kBytes; ++i)
    id = id << 8 | static_cast<unsigned char>(content[kApplicationAt + i]);
  return id == kApplicationId;
}

bool is_run(const std::string& location) {
  const std::string path = parse_location(location).path;
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) return false;  // a pipe is read once
  std::string head(128, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(head.data(), std::ssize(head));
  return is_run_database(std::string_view(head).substr(0, static_cast<std::size_t>(file.gcount())));
}

Result<std::vector<std::string>> run_names(const std::string& path) {
  auto opened = open_checked(path);
  if (!opened) return tl::unexpected(opened.error());
  return std::move(opened->runs.names);
}

Result<Run> read_run(const std::string& location) {
  auto chosen = open_chosen(location);
  if (!chosen) return tl::unexpected(chosen.error());
  return Loader(chosen->database, chosen->version, chosen->id).load();
}

Result<RunInfo> read_about(const std::string& location) {
  auto chosen = open_chosen(location);
  if (!chosen) return tl::unexpected(chosen.error());
  return Loader(chosen->database, chosen->version, chosen->id).load_about();
}

bool holds_measured_alone(const std::string& path) {
  auto opened = open_checked(path);
  if (!opened || opened->runs.ids.empty()) return false;
  return opened->database.integer("SELECT count(*) FROM run WHERE kind <> 1").value_or(1) == 0;
}

bool holds_measured_work(const std::string& path) {
  auto opened = open_checked(path);
  if (!opened) return false;
  return opened->database
             .integer(
                 "SELECT count(*) FROM run WHERE kind = 1 AND EXISTS "
                 "(SELECT 1 FROM op WHERE op.run = run.id)")
             .value_or(0) != 0;
}

Result<std::vector<Comparison>> read_comparisons(const std::string& path) {
  auto opened = open_checked(path);
  if (!opened) return tl::unexpected(opened.error());
  if (opened->version < 2) return std::vector<Comparison>();
  return load_comparisons(opened->database, opened->runs.names);
}

}  // namespace foregather::store
