#include "tasks/record.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <map>
#include <thread>
#include <tuple>

#include <fmt/ranges.h>

#include "core/base/file.h"
#include "core/base/program_files.h"
#include "core/base/temporary_names.h"
#include "core/store/reader.h"
#include "core/store/sweep_reader.h"
#include "profiler/identity.h"
#include "profiler/raw_file.h"
#include "profiler/recorder.h"
#include "profiler/settings.h"
#include "sim/passes/arguments.h"
#include "tasks/doctor.h"
#include "tasks/outputs.h"
#include "tasks/process_snapshots.h"
#include "tasks/recorded_command.h"

namespace foregather::tasks {
namespace {

namespace fs = std::filesystem;
using Variables = std::map<std::string, std::string>;
using Tell = std::function<void(const std::string&)>;

Result<Ns> seconds(const char* option, const std::string& text) {
  constexpr double kMost = 1e9;
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= 0 && value <= kMost))
    return fail("{} {}: is no number of seconds, expected one as 2 or 0.5", option, text);
  return static_cast<Ns>(value * 1e9);
}

Result<Variables> variables_of(const RecordOptions& options) {
  Variables variables;
  if (!options.kinds.empty()) {
    std::string unknown;
    const auto kinds = profiler::parse_kinds(options.kinds, unknown);
    if (!kinds) {
      std::vector<std::string> names;
      for (const auto& [name, kind] : profiler::kind_names()) names.emplace_back(name);
      return fail("--kinds {}: there is no kind '{}', expected some of {}", options.kinds, unknown,
                  fmt::join(names, ", "));
    }
    variables[profiler::kKindsVariable] = std::to_string(*kinds);
  }
  for (const auto& [option, text, variable] :
       {std::tuple("--delay", &options.delay, profiler::kDelayVariable),
        std::tuple("--duration", &options.duration, profiler::kDurationVariable)}) {
    if (text->empty()) continue;
    const auto time = seconds(option, *text);
    if (!time) return tl::unexpected(time.error());
    variables[variable] = std::to_string(*time);
  }
  if (!options.range.empty() && !options.steps.empty())
    return fail("--range and --steps both say when to record: expected one of them");
  if (!options.range.empty()) variables[profiler::kRangeVariable] = options.range;
  if (!options.steps.empty()) {
    if (!profiler::parse_steps(options.steps))
      return fail("--steps {}: expected the first and the last step, as 3..5", options.steps);
    variables[profiler::kStepsVariable] = options.steps;
  }
  if (!options.max_size.empty()) {
    const auto bytes = sim::parse_bytes(options.max_size);
    if (!bytes)
      return fail("--max-size {}: is no size, expected bytes or a text such as 500MB or 2GiB",
                  options.max_size);
    variables[profiler::kBytesVariable] = std::to_string(*bytes);
  }
  if (options.host_only) variables[profiler::kHostOnlyVariable] = "1";
  return variables;
}

// Sets the variables by which CUDA, NVTX and NCCL find the library, unless another tool has them.
void add_entries(const std::string& library, bool host_only, const Tell& tell,
                 Variables& variables) {
  const auto add = [&](const char* name, const char* what) {
    const char* const taken = std::getenv(name);
    if (taken != nullptr && *taken != '\0')
      tell(fmt::format("{} is set to {}, by another profiler: {} not recorded", name, taken, what));
    else
      variables[name] = library;
  };
  add("NVTX_INJECTION64_PATH", "NVTX ranges are");
  if (host_only) return;
  add("CUDA_INJECTION64_PATH", "device work is");
  add("NCCL_PROFILER_PLUGIN", "NCCL's events are");
  for (const char* name : {"KINETO_USE_DAEMON", "NSYS_PROFILING_SESSION_ID"})
    if (std::getenv(name) != nullptr)
      tell(
          fmt::format("{} is set: where another profiler is attached to CUPTI, which takes one at "
                      "a time, NVTX and NCCL are recorded and device work is not",
                      name));
}

Status make_folder(const std::string& folder) {
  if (::mkdir(folder.c_str(), 0700) == 0) return {};
  if (errno == EEXIST)
    return fail_at(
        folder,
        "is of an earlier recording that was not finished: 'foregather import {}/*.sqlite "
        "-o RUN.db' makes a run of it, or remove it",
        folder);
  return fail_at(folder, "cannot be made: {}", std::strerror(errno));
}

// Goes, unless it holds something.
class RawFolder {
 public:
  explicit RawFolder(const std::string& path) : path_(path) {}
  RawFolder(const RawFolder&) = delete;
  RawFolder& operator=(const RawFolder&) = delete;
  ~RawFolder() { remove_empty(); }
  /// True: it is gone.
  bool remove_empty() { return ::rmdir(path_.c_str()) == 0 || errno == ENOENT; }

 private:
  std::string path_;
};

Result<std::vector<std::string>> raw_files(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error))
    if (at->path().extension() == ".sqlite") files.push_back(at->path().string());
  if (error) return fail_work(folder, "cannot be read: {}", error.message());
  std::sort(files.begin(), files.end());
  return files;
}

RecordProgress progress_of(const std::string& folder) {
  RecordProgress progress;
  const auto files = raw_files(folder);
  if (!files) return progress;
  for (const std::string& file : *files) {
    ++progress.processes;
    profiler::RecordingStatus status;
    std::ifstream in(file + ".status", std::ios::binary);
    if (!in.read(reinterpret_cast<char*>(&status), sizeof status)) continue;
    progress.records += status.records;
    progress.dropped += status.dropped;
    progress.bytes += status.bytes;
  }
  return progress;
}

std::int64_t now() {
  timespec time{};
  ::clock_gettime(CLOCK_REALTIME, &time);
  return std::int64_t{time.tv_sec} * kSecond + time.tv_nsec;
}

// The life of the command itself, where no library was loaded into it.
Status add_command(const RecordOptions& options, const std::string& folder, pid_t pid, Ns begin) {
  profiler::Identity identity = profiler::identify();
  identity.pid = pid;
  const std::string ending = fmt::format("_{}.sqlite", pid);
  const auto files = raw_files(folder);
  if (!files) return tl::unexpected(files.error());
  for (const std::string& file : *files)
    if (file.ends_with(ending)) return {};
  std::string error;
  const std::string path = folder + "/" + profiler::raw_file_name(identity);
  const auto raw = profiler::RawFile::create(path, begin, error);
  if (raw == nullptr) return fail_work(path, "cannot be written: {}", error);
  const std::string command = fmt::format("{}", fmt::join(options.command, " "));
  raw->run("INSERT INTO FOREGATHER_PROCESS VALUES (?, ?, ?, ?, ?, ?, ?, 0, ?, 1)",
           std::int64_t{pid}, std::int64_t{::getpid()}, identity.rank, identity.local_rank,
           identity.world_size, std::string_view(identity.host), std::string_view(command),
           now() - begin);
  if (!raw->finish()) return fail_work(path, "cannot be written: {}", raw->failure());
  return {};
}

// Of this host. One that was killed may be there until somebody takes notice.
bool is_alive(pid_t pid) {
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string text;
  std::getline(file, text);  // "4711 (name) S …"; the name may hold anything
  const std::size_t name_end = text.rfind(") ");
  if (name_end == std::string::npos) return false;
  const char state = text[name_end + 2];
  return state != 'Z' && state != 'X';
}

// A process that goes on (a daemon) keeps its file.
bool is_running(const std::string& file) {
  const std::size_t at = file.rfind('_');
  pid_t pid = 0;
  const auto [end, error] = std::from_chars(file.data() + at + 1, file.data() + file.size(), pid);
  if (error != std::errc() || !fs::exists(file + "-wal")) return false;
  return file.substr(0, at).ends_with(profiler::identify().host) && is_alive(pid);
}

Result<ImportedRun> merge(const RecordOptions& options, const std::string& folder,
                          const Tell& tell) {
  constexpr int kPatience = 20;
  const auto all = raw_files(folder);
  if (!all) return tl::unexpected(all.error());
  for (int i = 0; i < kPatience && std::any_of(all->begin(), all->end(), is_running); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // a kill takes a moment
  std::vector<std::string> files;
  for (const std::string& file : *all)
    if (is_running(file))
      tell(fmt::format(
          "{}: its process is still running, and is not in the run: once it has ended, 'foregather "
          "import {} -o NEW.db' makes a run of it",
          file, file));
    else if (!profiler::has_begun(file))
      tell(
          file +
          ": its process was killed, or closed the recording's files, before it recorded anything");
    else
      files.push_back(file);
  if (files.empty())
    return fail_work(folder, "nothing was recorded: no process loaded the injection library");
  const auto imported = import_files(files);
  if (!imported) return tl::unexpected(imported.error());
  auto run = import_run(*imported, std::nullopt, options.database);
  if (!run) return run;
  for (const ImportedFile& file : *imported) {
    run->warnings.insert(run->warnings.end(), file.warnings.begin(), file.warnings.end());
    for (const auto& [reason, count] : file.dropped)
      run->warnings.push_back(fmt::format("{}: dropped: {}: {}", file.path, reason, count));
  }
  return run;
}

}  // namespace

std::string injection_library() { return own_library("libforegather_inject.so", "../profiler"); }

Result<Recorded> record(const RecordOptions& options, const Tell& tell,
                        const std::function<void(const RecordProgress&)>& show) {
  if (options.command.empty() || options.command.front().empty())
    return fail("COMMAND is empty, expected a program");
  auto variables = variables_of(options);
  if (!variables) return tl::unexpected(variables.error());
  const std::string library = injection_library();
  if (library.empty())
    return fail_work("libforegather_inject.so", "is not beside this program: {}", kRecorderFix);
  if (const auto place = PendingFile::create(options.database); !place)
    return tl::unexpected(place.error());
  if (store::holds_measured_work(options.database))
    return fail_at(
        options.database,
        "holds a measured run, and a job is not had again: expected the name of a new file");
  std::error_code ignored;
  if (options.is_default && fs::exists(options.database, ignored) &&
      !store::holds_measured_alone(options.database))
    return fail_at(options.database,
                   "is there, and is no recording: expected -o with the name of the database");
  if (store::is_sweep(options.database))
    return fail_at(options.database, "holds a sweep, which stays: name another file");
  for (const std::string& word : options.command)
    if (is_same_file(word, options.database))
      return fail_at(options.database, "is part of the command, expected another file to write");
  if (!options.host_only && !can_open("libcuda.so.1"))
    tell(
        "there is no NVIDIA driver (libcuda.so.1): NVTX ranges and processes are recorded, "
        "kernels, "
        "copies and NCCL's events are not; --host-only asks for that");
  Recorded recorded;
  recorded.raw_folder = fs::absolute(options.database).lexically_normal().string() + ".raw";
  if (const Status made = make_folder(recorded.raw_folder); !made)
    return tl::unexpected(made.error());
  RawFolder folder(recorded.raw_folder);
  (*variables)[profiler::kDirectoryVariable] = recorded.raw_folder;
  add_entries(library, options.host_only, tell, *variables);
  const Ns begin = now();
  const auto end =
      run_command(options.command, *variables, [&] { show(progress_of(recorded.raw_folder)); });
  if (!end) return tl::unexpected(end.error());
  recorded.exit_code = end->exit_code;
  const Status added = add_command(options, recorded.raw_folder, end->process, begin);
  recorded.total = progress_of(recorded.raw_folder);
  if (!added && recorded.total.processes == 0)
    recorded.run = tl::unexpected(added.error());
  else
    recorded.run = merge(options, recorded.raw_folder, tell);
  const auto files = raw_files(recorded.raw_folder);
  const std::vector<std::string> alone = snapshots_alone(recorded.raw_folder);
  for (const std::string& path : alone)
    tell(path + ": there is no recording of its process, and it is not in the run");
  if (recorded.run && alone.empty() && files &&
      std::none_of(files->begin(), files->end(), is_running))
    remove_folder_of_files(recorded.raw_folder.c_str());
  if (folder.remove_empty()) recorded.raw_folder.clear();
  return recorded;
}

}  // namespace foregather::tasks
