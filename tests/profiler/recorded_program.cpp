// A program to be recorded: it marks NVTX ranges, from as many processes and threads as it is told.
//
//   recorded_program ranges N          N ranges "step K" that hold "work"
//   recorded_program fork P N          the same in P children
//   recorded_program threads T N       the same in T threads
//   recorded_program forever           ranges of 1 ms until it is killed
//   recorded_program exit CODE         one range, then that exit code
//   recorded_program device N MS       as ranges, and what the driver does at cuInit: it loads
//                                      CUDA_INJECTION64_PATH, which may find the CUPTI of
//                                      fake_cupti.cpp; twice, as where two runtimes begin. Then it
//                                      lives on for MS milliseconds
//   recorded_program steps N           ranges "ProfilerStep#0" … with marks within and between
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nvtx3/nvToolsExt.h>

namespace {

void ranges(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA(("step " + std::to_string(i)).c_str());
    nvtxRangePushA("work");
    nvtxRangePop();
    nvtxRangePop();
  }
}

int fork_children(int processes, int count) {
  for (int p = 0; p < processes; ++p)
    if (::fork() == 0) {
      ranges(count);
      std::exit(0);
    }
  int status = 0;
  while (::wait(&status) > 0) {
  }
  return 0;
}

void steps(int count) {
  for (int i = 0; i < count; ++i) {
    nvtxRangePushA(("ProfilerStep#" + std::to_string(i)).c_str());
    nvtxMarkA("inside");
    nvtxRangePop();
    nvtxMarkA("between");
  }
}

int device(int count, int milliseconds) {
  const char* const path = std::getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr) return 3;
  void* const library = ::dlopen(path, RTLD_NOW);
  if (library == nullptr) return 4;
  const auto initialise = reinterpret_cast<int (*)()>(::dlsym(library, "InitializeInjection"));
  if (initialise == nullptr || initialise() != 1 || initialise() != 1) return 5;
  ranges(count);
  // As the driver does: work goes on for a while.
  if (void* const cupti = ::dlopen("libcupti.so.13", RTLD_NOW | RTLD_NOLOAD))
    if (const auto work = reinterpret_cast<void (*)(int)>(::dlsym(cupti, "fakeCuptiWork")))
      work(count);
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const int first = argc > 2 ? std::atoi(argv[2]) : 1, second = argc > 3 ? std::atoi(argv[3]) : 1;
  nvtxInitialize(nullptr);  // before there are threads: its first use is none of TSan's races
  if (what == "ranges") ranges(first);
  if (what == "fork") return fork_children(first, second);
  if (what == "steps") steps(first);
  if (what == "device") return device(first, argc > 3 ? second : 0);
  if (what == "threads") {
    std::vector<std::thread> threads;
    for (int t = 0; t < first; ++t) threads.emplace_back(ranges, second);
    for (std::thread& thread : threads) thread.join();
  }
  if (what == "forever")
    for (;;) {
      ranges(1);
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
  if (what == "exit") {
    ranges(1);
    return first;
  }
  return 0;
}
