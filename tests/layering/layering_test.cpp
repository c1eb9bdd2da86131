// Who may include whom, read from the include lines of the tree.
//
//   layering_test ROOT         checks the tree at ROOT: prints each violation as FILE:LINE, exit 1
//   on any layering_test --self-test  makes a small tree with known mistakes and checks that each
//   is found
//
// The rules are the tables `rooms` and `libraries` below. Reading is by line: an include inside
// `#if 0` counts, one in a comment does not.
#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <regex>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <unistd.h>

namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string_view>;

/// A folder of the tree and what its files may include besides the folder itself and core/base,
/// the vocabulary of all. A name covers the folders below it: "core" stands for all of core/.
struct Room {
  std::string_view folder;
  Names may_include;
};

const std::array rooms{
    Room{"core/base", {}},
    Room{"core/ir", {}},
    Room{"core/plan", {"core/ir"}},
    Room{"core/alloc", {}},
    Room{"core/ledger", {"core/ir", "core/alloc"}},
    Room{"core/run", {"core/ir"}},
    Room{"core/store", {"core/ir", "core/run"}},
    Room{"core/rebuild", {"core/ir", "core/run"}},
    Room{"core/compare", {"core/ir", "core/run"}},
    Room{"traces", {"core/ir", "core/run"}},
    Room{"sim", {"core/ir", "core/plan", "core/run", "core/alloc", "core/ledger"}},
    Room{"profiler", {"core/run", "core/store"}},
    Room{"runtime", {"core/ir", "core/plan", "core/run", "core/alloc", "core/ledger"}},
    Room{"tasks", {"core", "traces", "sim", "profiler", "runtime"}},
    Room{"cli", {"tasks"}},
    Room{"gui/models", {"core"}},
    Room{"gui/views", {"gui/models"}},
    Room{"gui/app", {"gui/views", "tasks"}},
};

const std::array top_folders{"core", "traces", "sim", "profiler", "runtime", "tasks", "cli", "gui"};

/// Headers of another project, and where they may appear.
struct Library {
  std::string_view name;
  std::regex headers;            // matches the whole path between the quotes or brackets
  std::optional<Names> only_in;  // folders or files; nothing: anywhere
  bool sources_only;             // slow to compile: never in a header
};

/// The files and folders that may name CUDA, CUPTI, NCCL or MPI: what is compiled into plug-ins
/// that are opened at run time, so that the program runs without them.
const Names plug_in_files{"runtime/cuda", "runtime/mpi", "tests/gpu"};

std::vector<Library> libraries(const Names& plug_ins) {
  const auto header = [](const char* pattern) { return std::regex(pattern, std::regex::optimize); };
  return {
      {"Qt", header(R"(Q[A-Z].*)"), Names{"gui"}, false},
      {"CUDA",
       header(
           R"((cuda|cub|thrust|nv|nvtx3)/.*|(cuda|cublas|curand|nvrtc|nvml|nvToolsExt|nvtx|cooperative_groups)[^/]*)"),
       plug_ins, false},
      {"CUPTI", header(R"((.*/)?cupti[^/]*|generated_(cuda|nvtx)[^/]*)"), plug_ins, false},
      {"NCCL", header(R"((.*/)?nccl[^/]*|nccl/.*)"), plug_ins, false},
      {"MPI", header(R"((.*/)?mpi(-ext)?\.h|mpi/.*|openmpi/.*)"), plug_ins, false},
      {"SQLite", header(R"(sqlite3[^/]*|SQLiteCpp/.*)"), Names{"core/store", "traces", "profiler"},
       true},
      {"CLI11", header(R"(CLI/.*|CLI11[^/]*)"), std::nullopt, true},
      {"nlohmann-json", header(R"((nlohmann/)?json\.hpp|nlohmann/(?!json_fwd\.hpp).*)"),
       std::nullopt, true},
      {"toml++", header(R"(toml\+\+/.*|toml\.hpp)"), std::nullopt, true},
      {"simdjson", header(R"((simdjson/)?simdjson[^/]*)"), std::nullopt, true},
  };
}

bool lies_in(std::string_view path, std::string_view folder) {
  return path == folder ||
         (path.starts_with(folder) && path.substr(folder.size()).starts_with('/'));
}

bool lies_in_any(std::string_view path, const Names& folders) {
  return std::ranges::any_of(folders, [&](auto folder) { return lies_in(path, folder); });
}

const Room* room_of(std::string_view path) {
  const auto room =
      std::ranges::find_if(rooms, [&](const Room& r) { return lies_in(path, r.folder); });
  return room == rooms.end() ? nullptr : &*room;
}

std::string listed(const Names& names) {
  std::string text;
  for (const auto name : names) text.append(text.empty() ? "" : ", ").append(name);
  return text.empty() ? "nothing" : text;
}

bool is_header(const fs::path& file) {
  return std::set<fs::path>{".h", ".hh", ".hpp", ".cuh", ".inc"}.contains(file.extension());
}

bool is_source(const fs::path& file) {
  return std::set<fs::path>{".c", ".cc", ".cpp", ".cxx", ".cu"}.contains(file.extension());
}

/// Which rule `file` breaks by including `included`, or nothing.
std::optional<std::string> broken_rule(const fs::path& file, std::string_view included, bool quoted,
                                       std::span<const Library> known_libraries) {
  const std::string from = file.generic_string();
  const Room* const room = room_of(from);
  if (room == nullptr) return "the file lies in no known folder: add the folder to tests/layering";
  if (included.starts_with('/') || included.find("..") != std::string_view::npos)
    return "an include is a path from the root of the repository";

  const bool in_tree =
      std::ranges::any_of(top_folders, [&](auto top) { return lies_in(included, top); });
  if (!in_tree) {
    for (const Library& library : known_libraries) {
      if (!std::regex_match(included.begin(), included.end(), library.headers)) continue;
      const std::string name(library.name);
      if (library.only_in && !lies_in_any(from, *library.only_in))
        return name + " only in " +
               (library.only_in->empty() ? "plug-in files, see plug_in_files"
                                         : listed(*library.only_in));
      if (library.sources_only && is_header(file))
        return name + " only in .cpp files, never in a header";
      return std::nullopt;
    }
    if (!quoted) return std::nullopt;
    return "a quoted include is a path from the root of the repository into " +
           listed(Names(top_folders.begin(), top_folders.end()));
  }
  if (lies_in(included, room->folder) || lies_in(included, "core/base")) return std::nullopt;
  if (lies_in_any(included, room->may_include)) return std::nullopt;
  const std::string allowed = room->folder == "core/base" ? "nothing" : listed([&] {
    Names names{"core/base"};
    names.insert(names.end(), room->may_include.begin(), room->may_include.end());
    return names;
  }());
  return std::string(room->folder) + " may include " + allowed;
}

struct Report {
  std::vector<std::string> violations;  // "FILE:LINE: includes X: rule"
  int files = 0;
  int includes = 0;
};

/// Blanks what lies in comments, keeping track of a block comment that goes on in the next line.
std::string without_comments(const std::string& line, bool& in_block) {
  std::string kept;
  bool in_string = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    const std::string_view two = std::string_view(line).substr(i, 2);
    if (in_block) {
      if (two == "*/") in_block = false, ++i;
    } else if (in_string) {
      if (line[i] == '\\' && i + 1 < line.size()) kept += line[i++];
      in_string = line[i] != '"';
      kept += line[i];
    } else if (two == "/*") {
      in_block = true, ++i;
    } else if (two == "//") {
      break;
    } else {
      in_string = line[i] == '"';
      kept += line[i];
    }
  }
  return kept;
}

void check_file(const fs::path& root, const fs::path& file, std::span<const Library> known,
                Report& report) {
  static const std::regex include_line(R"(\s*#\s*(?:include|import|include_next)\b\s*(.*?)\s*)");
  ++report.files;
  std::ifstream input(root / file);
  const auto complain = [&](int line_number, const std::string& what) {
    report.violations.push_back(file.generic_string() + ":" + std::to_string(line_number) + ": " +
                                what);
  };
  std::string line;
  bool in_block = false;
  int number = 0;
  while (std::getline(input, line)) {
    ++number;
    if (!in_block && line.find("include") == std::string::npos &&
        line.find("import") == std::string::npos && line.find("/*") == std::string::npos)
      continue;
    const std::string code = without_comments(line, in_block);
    std::smatch match;
    if (!std::regex_match(code, match, include_line)) continue;
    ++report.includes;
    const std::string target = match[1];
    const bool quoted = target.starts_with('"');
    const std::size_t end = target.find(quoted ? '"' : '>', 1);
    if ((!quoted && !target.starts_with('<')) || end == std::string::npos) {
      complain(number, "includes a macro: write the path out");
      continue;
    }
    if (const auto rule =
            broken_rule(file, std::string_view(target).substr(1, end - 1), quoted, known))
      complain(number, "includes " + target.substr(0, end + 1) + ": " + *rule);
  }
  if (input.bad() || number == 0) {
    std::error_code ignored;
    if (fs::file_size(root / file, ignored) > 0) complain(1, "cannot be read");
  }
}

Report check_tree(const fs::path& root, const Names& plug_ins) {
  const std::vector<Library> known = libraries(plug_ins);
  Report report;
  for (const char* top : top_folders) {
    if (!fs::is_directory(root / top)) continue;
    std::vector<fs::path> files;
    for (const auto& entry : fs::recursive_directory_iterator(root / top))
      if (entry.is_regular_file() && (is_header(entry.path()) || is_source(entry.path())))
        files.push_back(entry.path().lexically_relative(root));
    std::ranges::sort(files);
    for (const fs::path& file : files) check_file(root, file, known, report);
  }
  return report;
}

/// One file of the self-test's tree: a single line, and whether it must be reported.
struct Case {
  std::string_view file;
  std::string_view line;
  bool bad;
};

const Case cases[] = {
    {"core/base/ok.h", R"(#include "core/base/other.h")", false},
    {"core/base/up.h", R"(#include "core/ir/graph.h")", true},
    {"core/base/up_brackets.h", "#include <core/ir/graph.h>", true},
    {"core/base/relative.h", R"(#include "../ir/graph.h")", true},
    {"core/base/sibling.h", R"(#include "other.h")", true},
    {"core/base/from_tests.h", R"(#include "tests/support/skip.h")", true},
    {"core/base/macro.h", "#include HEADER", true},
    {"core/base/spaced.cpp", R"(  #  include   "cli/main.h")", true},
    {"core/base/comment.cpp", R"(// #include "cli/main.h")", false},
    {"core/base/block.cpp", R"(/* #include "cli/main.h" */)", false},
    {"core/base/after_block.cpp", R"(/* x */ #include "cli/main.h" // y)", true},
    {"core/base/std.cpp", "#include <vector>", false},
    {"core/base/fmt.h", "#include <fmt/core.h>", false},
    {"core/ir/ok.h", R"(#include "core/base/ids.h")", false},
    {"core/ir/up.h", R"(#include "core/plan/plan.h")", true},
    {"core/plan/ok.h", R"(#include "core/ir/graph.h")", false},
    {"core/plan/up.h", R"(#include "core/run/run.h")", true},
    {"core/alloc/up.h", R"(#include "core/ir/graph.h")", true},
    {"core/run/ok.h", R"(#include "core/ir/graph.h")", false},
    {"core/run/up.h", R"(#include "core/store/writer.h")", true},
    {"core/store/ok.cpp", R"(#include "core/run/view.h")", false},
    {"core/store/sqlite.cpp", "#include <sqlite3.h>", false},
    {"core/store/sqlite.h", "#include <sqlite3.h>", true},
    {"core/rebuild/ok.cpp", R"(#include "core/run/view.h")", false},
    {"core/rebuild/store.cpp", R"(#include "core/store/reader.h")", true},
    {"core/compare/plan.cpp", R"(#include "core/plan/plan.h")", true},
    {"core/unknown/x.cpp", "#include <vector>", true},
    {"traces/ok.cpp", "#include <sqlite3.h>", false},
    {"traces/store.cpp", R"(#include "core/store/reader.h")", true},
    {"traces/simdjson.cpp", "#include <simdjson.h>", false},
    {"traces/simdjson.h", "#include <simdjson.h>", true},
    {"sim/engine/ok.cpp", R"(#include "sim/cost/table.h")", false},
    {"sim/engine/alloc.cpp", R"(#include "core/alloc/allocator.h")", false},
    {"sim/engine/store.cpp", R"(#include "core/store/writer.h")", true},
    {"sim/engine/runtime.cpp", R"(#include "runtime/host.h")", true},
    {"sim/engine/sqlite.cpp", "#include <sqlite3.h>", true},
    {"profiler/ok.cpp", R"(#include "core/store/writer.h")", false},
    {"profiler/sim.cpp", R"(#include "sim/engine/engine.h")", true},
    {"profiler/cupti.cpp", "#include <cupti.h>", true},
    {"profiler/plug_in.cpp", "#include <cupti.h>", false},
    {"runtime/profiler.cpp", R"(#include "profiler/rows.h")", true},
    {"runtime/cuda.cpp", "#include <cuda_runtime.h>", true},
    {"sim/cost/own_name.h", R"(#include "sim/cost/nccl_model.h")", false},
    {"runtime/nccl.h", R"(#include "nccl.h")", true},
    {"runtime/mpi.cpp", "#include <mpi.h>", true},
    {"runtime/nvtx.cpp", "#include <nvtx3/nvToolsExt.h>", true},
    {"tasks/ok.cpp", R"(#include "sim/engine/engine.h")", false},
    {"tasks/store.cpp", R"(#include "core/store/writer.h")", false},
    {"tasks/cli.cpp", R"(#include "cli/main.h")", true},
    {"tasks/json.cpp", "#include <nlohmann/json.hpp>", false},
    {"tasks/json.h", "#include <nlohmann/json.hpp>", true},
    {"tasks/json_fwd.h", "#include <nlohmann/json_fwd.hpp>", false},
    {"tasks/toml.h", "#include <toml++/toml.h>", true},
    {"cli/ok.cpp", R"(#include "tasks/simulate.h")", false},
    {"cli/engine.cpp", R"(#include "sim/engine/engine.h")", true},
    {"cli/cli11.cpp", "#include <CLI/CLI.hpp>", false},
    {"cli/cli11.h", "#include <CLI/CLI.hpp>", true},
    {"cli/qt.cpp", "#include <QString>", true},
    {"gui/models/ok.h", "#include <QAbstractItemModel>", false},
    {"gui/models/core.h", R"(#include "core/store/reader.h")", false},
    {"gui/models/views.h", R"(#include "gui/views/timeline.h")", true},
    {"gui/views/core.h", R"(#include "core/run/view.h")", true},
    {"gui/app/ok.cpp", R"(#include "tasks/simulate.h")", false},
    {"gui/app/cli.cpp", R"(#include "cli/main.h")", true},
};

int self_test() {
  const fs::path root = fs::temp_directory_path() / ("layering-" + std::to_string(::getpid()));
  for (const Case& c : cases) {
    const fs::path path = root / c.file;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << "// " << c.file << "\n" << c.line << "\n";
  }
  const Report report = check_tree(root, {"profiler/plug_in.cpp"});
  fs::remove_all(root);

  int wrong = 0;
  for (const Case& c : cases) {
    // core/unknown is wrong as a file, whatever it includes; all else is wrong in its second line.
    const std::string at = std::string(c.file) + ":2: ";
    const bool found =
        std::ranges::any_of(report.violations, [&](auto& v) { return v.starts_with(at); });
    if (found == c.bad) continue;
    ++wrong;
    std::cout << c.file << ": " << c.line << (c.bad ? " was not reported\n" : " was reported\n");
  }
  if (report.files != std::ssize(cases)) ++wrong, std::cout << "not every file was read\n";
  std::cout << "layering self-test: " << std::size(cases) << " cases, " << wrong << " wrong\n";
  return wrong == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (arguments.size() != 1) {
    std::cerr << "usage: layering_test ROOT | --self-test\n";
    return 2;
  }
  try {
    if (arguments[0] == "--self-test") return self_test();
    const Report report = check_tree(arguments[0], plug_in_files);
    for (const std::string& violation : report.violations) std::cout << violation << '\n';
    std::cout << "layering: " << report.files << " files, " << report.includes << " includes, "
              << report.violations.size() << " violations\n";
    if (report.files == 0) std::cerr << "layering: no source found below " << arguments[0] << '\n';
    return report.violations.empty() && report.files > 0 ? 0 : 1;
  } catch (const std::exception& error) {
    std::cerr << "layering: " << error.what() << '\n';
    return 2;
  }
}
