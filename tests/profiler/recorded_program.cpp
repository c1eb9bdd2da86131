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
//   recorded_program vocabulary        a range, mark or name by each of NVTX's functions
//   recorded_program excess            more than the recorder keeps, and ends without begins
//   recorded_program steps N           ranges "ProfilerStep#0" … with marks within and between
#include <dlfcn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtPayload.h>

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

nvtxEventAttributes_t attributes() {
  nvtxEventAttributes_t empty{};
  empty.version = NVTX_VERSION;
  empty.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  return empty;
}

void vocabulary() {
  nvtxDomainHandle_t const sums = nvtxDomainCreateA("sums");
  nvtxDomainCreateW(L"gr\u00f6\u00dfe");
  nvtxDomainCreateA("sums");
  nvtxNameCategoryA(7, "loads");
  nvtxDomainNameCategoryA(sums, 3, "adds");
  nvtxNameOsThreadA(static_cast<std::uint32_t>(::getpid()), "first");

  nvtxEventAttributes_t registered = attributes();
  registered.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  registered.message.registered = nvtxDomainRegisterStringA(sums, "registered");
  registered.category = 3;
  registered.colorType = NVTX_COLOR_ARGB;
  registered.color = 0xff102030;
  registered.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
  registered.payload.ullValue = 42;
  nvtxEventAttributes_t wide = attributes();
  wide.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  wide.message.registered = nvtxDomainRegisterStringW(sums, L"\u20ac registered");
  wide.payloadType = NVTX_PAYLOAD_TYPE_INT32;
  wide.payload.iValue = -5;
  nvtxEventAttributes_t ascii = attributes();
  ascii.messageType = NVTX_MESSAGE_TYPE_ASCII;
  ascii.message.ascii = "ascii";
  nvtxEventAttributes_t unicode = attributes();
  unicode.messageType = NVTX_MESSAGE_TYPE_UNICODE;
  unicode.message.unicode = L"\U0001F600 unicode";

  // Domains nest apart from each other.
  nvtxRangePushW(L"outer \u00e4");
  nvtxDomainRangePushEx(sums, &registered);
  nvtxRangePushEx(&ascii);
  nvtxDomainRangePop(sums);
  nvtxRangePop();
  nvtxRangePop();

  const nvtxRangeId_t first = nvtxRangeStartA("start"), second = nvtxRangeStartEx(&unicode),
                      third = nvtxDomainRangeStartEx(sums, &wide), fourth = nvtxRangeStartW(L"w");
  std::thread([&] {
    nvtxRangeEnd(first);
    nvtxRangeEnd(fourth);
    nvtxDomainRangeEnd(sums, third);
  }).join();
  nvtxRangeEnd(second);

  nvtxMarkEx(&ascii);
  nvtxMarkW(L"mark \u00fc");
  nvtxDomainMarkEx(sums, &registered);

  struct Point {
    std::int32_t x, unused;
    double y;
  } const point{-3, 0, 0.5};
  const nvtxPayloadSchemaEntry_t entries[] = {
      {0, NVTX_PAYLOAD_ENTRY_TYPE_INT32, "x", "to the right", 0, offsetof(Point, x), nullptr,
       nullptr},
      {0, NVTX_PAYLOAD_ENTRY_TYPE_DOUBLE, "y", nullptr, 0, offsetof(Point, y), nullptr, nullptr}};
  nvtxPayloadSchemaAttr_t schema{};
  schema.fieldMask = NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NAME | NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_TYPE |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_NUM_ENTRIES |
                     NVTX_PAYLOAD_SCHEMA_ATTR_FIELD_STATIC_SIZE;
  schema.name = "point";
  schema.type = NVTX_PAYLOAD_SCHEMA_TYPE_STATIC;
  schema.entries = entries;
  schema.numEntries = 2;
  schema.payloadStaticSize = sizeof(Point);
  const std::uint64_t id = nvtxPayloadSchemaRegister(sums, &schema);
  const nvtxPayloadData_t data{id, sizeof point, &point};
  nvtxRangePushPayload(sums, &data, 1);
  nvtxRangePopPayload(sums, nullptr, 0);
  nvtxMarkPayload(sums, &data, 1);
  nvtxRangeEndPayload(sums, nvtxRangeStartPayload(sums, &data, 1), nullptr, 0);
  nvtxEventAttributes_t extended = ascii;
  extended.payloadType = NVTX_PAYLOAD_TYPE_EXT;
  extended.reserved0 = 1;
  extended.payload.ullValue = NVTX_POINTER_AS_PAYLOAD_ULLVALUE(&data);
  nvtxMarkEx(&extended);
}

// Ends without begins; 5,000 ranges within each other, then one; 65,540 at a time.
void excess() {
  nvtxRangePop();
  nvtxRangePop();
  for (int i = 0; i < 5000; ++i) nvtxRangePushA("deep");
  for (int i = 0; i < 5000; ++i) nvtxRangePop();
  nvtxRangePushA("after");
  nvtxRangePop();
  nvtxEventAttributes_t counted = attributes();
  counted.messageType = NVTX_MESSAGE_TYPE_ASCII;
  counted.message.ascii = "unsigned";
  counted.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT32;
  counted.payload.uiValue = 4'000'000'000U;
  nvtxMarkEx(&counted);
  counted.message.ascii = "signed";
  counted.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  counted.payload.llValue = -5'000'000'000;
  nvtxMarkEx(&counted);
  for (int i = 0; i < 65'540; ++i) nvtxRangeStartA("many");
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
  if (what == "vocabulary") vocabulary();
  if (what == "excess") excess();
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
