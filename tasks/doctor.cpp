#include "tasks/doctor.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <thread>

#include "core/base/text.h"
#include "runtime/plug_in.h"
#include "sim/sweep/choice_program.h"
#include "tasks/record.h"

namespace foregather::tasks {
namespace {

// The first of these libraries that can be opened, empty if none.
std::string first_library(std::initializer_list<const char*> names) {
  for (const char* name : names)
    if (can_open(name)) return name;
  return {};
}

Finding library(std::string what, std::initializer_list<const char*> names, std::string enables,
                std::string fix) {
  const std::string found = first_library(names);
  return {std::move(what), !found.empty(),
          found.empty() ? fmt::format("{} cannot be opened", *names.begin()) : found,
          std::move(enables), std::move(fix)};
}

Finding gpu() {
  std::size_t devices = 0;
  for (std::error_code ignored;
       std::filesystem::exists(fmt::format("/dev/nvidia{}", devices), ignored);)
    ++devices;
  const std::string driver = first_library({"libcuda.so.1"});
  const std::string enables = "running and recording schedules on this machine";
  if (devices > 0 && !driver.empty())
    return {"GPU and driver", true, fmt::format("{} device(s), {}", devices, driver), enables, ""};
  return {"GPU and driver", false,
          devices == 0 ? "no /dev/nvidia*" : "libcuda.so.1 cannot be opened", enables,
          "install the NVIDIA driver of a machine with a GPU; predictions need none"};
}

std::string executable_in_path(const char* name) {
  const char* path = std::getenv("PATH");
  for (std::string_view rest = path == nullptr ? "" : path; !rest.empty();) {
    const std::string_view folder = rest.substr(0, rest.find(':'));
    rest.remove_prefix(std::min(folder.size() + 1, rest.size()));
    const std::string candidate = fmt::format("{}/{}", folder, name);
    if (::access(candidate.c_str(), X_OK) == 0) return candidate;
  }
  return {};
}

Finding mpi() {
  const std::string launcher = executable_in_path("mpirun");
  const std::string runtime = first_library({"libmpi.so.40", "libmpi.so.12", "libmpi.so"});
  const bool present = !launcher.empty() && !runtime.empty();
  return {"MPI", present,
          present ? fmt::format("{}, {}", launcher, runtime)
                  : (launcher.empty() ? "no mpirun in PATH" : "libmpi cannot be opened"),
          "spreading sweeps over ranks", "apt-get install openmpi-bin libopenmpi3"};
}

Finding solver() {
  const auto name = sim::solver_name();
  return {
      "Solver", name.has_value(), name.value_or("built without GLPK"),
      "foregather search --blocks: how far a choice of more than 10 blocks is from the best one",
      sim::kSolverFix};
}

Finding display() {
  const std::string widgets = first_library({"libQt6Widgets.so.6"});
  const char* x11 = std::getenv("DISPLAY");
  const char* wayland = std::getenv("WAYLAND_DISPLAY");
  const bool has_display =
      (x11 != nullptr && *x11 != '\0') || (wayland != nullptr && *wayland != '\0');
  std::string detail = widgets.empty() ? "libQt6Widgets.so.6 cannot be opened" : widgets;
  detail += has_display ? ", a display" : ", no display";
  return {"Qt and display", !widgets.empty() && has_display, detail, "the graphical front end",
          widgets.empty() ? "apt-get install libqt6widgets6 libqt6svg6"
                          : "log in to a desktop, or use ssh -X"};
}

Finding recorder() {
  const std::string path = injection_library();
  const bool opens = !path.empty() && can_open(path.c_str());
  return {"Recorder", opens,
          path.empty() ? "libforegather_inject.so is not beside this program"
          : opens      ? path
                       : path + " cannot be opened",
          "foregather record: device work (with a driver and CUPTI), NVTX ranges, NCCL's events",
          std::string(kRecorderFix)};
}

Finding cuda_backend() {
  const std::string path = runtime::backend_plug_in("cuda");
  const bool opens = !path.empty() && can_open(path.c_str());
  return {"CUDA backend", opens,
          path.empty() ? "libforegather_backend_cuda.so is not beside this program"
          : opens      ? path
                       : path + " cannot be opened",
          "foregather run --backend cuda: schedules on GPUs",
          "build with the CUDA toolkit (nvcc) installed"};
}

Finding memory() {
  const std::int64_t pages = ::sysconf(_SC_PHYS_PAGES);
  const std::int64_t page = ::sysconf(_SC_PAGESIZE);
  if (pages <= 0 || page <= 0) return {"Memory", false, "unknown", "", ""};
  return {"Memory", true, format_bytes(pages * page), "about 1 GiB for a million ops", ""};
}

Finding cores() {
  const unsigned count = std::thread::hardware_concurrency();
  return {"Processors", count > 0, fmt::format("{}", count), "sweeps run one candidate on each",
          ""};
}

Finding system() {
  utsname name{};
  const bool known = ::uname(&name) == 0;
  return {"System", known,
          known ? fmt::format("{} {} {}", name.sysname, name.release, name.machine) : "unknown", "",
          ""};
}

}  // namespace

bool can_open(const char* library) {
  const pid_t child = ::fork();
  if (child < 0) return false;
  if (child == 0) ::_exit(::dlopen(library, RTLD_LAZY | RTLD_LOCAL) == nullptr ? 1 : 0);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0)
    if (errno != EINTR) return false;
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

std::vector<Finding> examine_machine() {
  return {
      system(),
      cores(),
      memory(),
      gpu(),
      cuda_backend(),
      library("cuBLASLt", {"libcublasLt.so.13", "libcublasLt.so.12"},
              "fast products of the CUDA backend, which has kernels of its own",
              "install the CUDA toolkit and put its lib64 into LD_LIBRARY_PATH"),
      library("CUPTI", {"libcupti.so.13", "libcupti.so.12", "libcupti.so"},
              "recording kernels and copies",
              "install cuda-cupti and put extras/CUPTI/lib64 into LD_LIBRARY_PATH"),
      library("NCCL", {"libnccl.so.2"}, "collectives of the CUDA backend, and recording them",
              "install libnccl2"),
      recorder(),
      library("OpenBLAS", {"libopenblas.so.0", "libopenblas.so"},
              "fast products of the host backend (foregather run), which has its own loops",
              "apt-get install libopenblas0"),
      solver(),
      mpi(),
      display(),
  };
}

}  // namespace foregather::tasks
