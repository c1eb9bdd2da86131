// NCCL without NCCL: a host that opens the library as NCCL does and calls back from several threads
// (a communicator without a driver fails before NCCL looks for a plug-in).
#include <dlfcn.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <thread>
#include <vector>

#include <catch2/catch.hpp>

#include "profiler/nccl_abi.h"
#include "profiler/settings.h"
#include "tests/support/skip.h"
#include "tests/unit/profiler/raw.h"

#ifdef FOREGATHER_INJECT

namespace foregather::profiler {
namespace {

using test::query;
using test::value;
using Rows = std::vector<std::vector<std::string>>;

nccl::Event collective(void* parent, std::uint64_t sequence) {
  nccl::Event event{};
  event.type = nccl::kCollective;
  event.parent = parent;
  event.collective.sequence = sequence;
  event.collective.function = "AllGather";
  event.collective.count = 1024;
  event.collective.datatype = "ncclBfloat16";
  event.collective.channels = 2;
  event.collective.warps = 16;
  event.collective.algorithm = "RING";
  event.collective.protocol = "LL128";
  return event;
}

/// One group call with one all-gather: its channels report after it stopped, from another thread.
template <class Plugin>
void one_call(const Plugin& plugin, void* context, std::uint64_t sequence, bool has_api) {
  void *group = nullptr, *api = nullptr, *call = nullptr, *launch = nullptr;
  nccl::Event event{};
  if (has_api) {
    event.type = nccl::kGroupApi;
    event.group_api.depth = 1;
    plugin.start_event(context, &group, &event);
    event = {};
    event.type = nccl::kCollectiveApi;
    event.parent = group;
    event.collective_api = {"AllGather", 1024, "ncclBfloat16", 0, nullptr, false};
    plugin.start_event(context, &api, &event);
    plugin.stop_event(api);
  }
  event = collective(api, sequence);
  plugin.start_event(context, &call, &event);
  plugin.stop_event(call);
  if (has_api) {
    event = {};
    event.type = nccl::kKernelLaunch;
    event.parent = group;
    plugin.start_event(context, &launch, &event);
    plugin.stop_event(launch);
    plugin.stop_event(group);
  }
  std::thread proxy([&] {
    for (std::uint8_t channel = 0; channel < 2; ++channel) {
      void* handle = nullptr;
      nccl::Event child{};
      child.type = nccl::kKernelChannel;
      child.parent = call;
      child.kernel_channel = {channel, 5000};
      plugin.start_event(context, &handle, &child);
      nccl::StateArguments stop{};
      stop.gpu_time = 9000;
      plugin.record_state(handle, nccl::kKernelChannelStop, &stop);
      plugin.stop_event(handle);
    }
    void *handle = nullptr, *step = nullptr;
    nccl::Event child{};
    child.type = nccl::kProxyOp;
    child.parent = call;
    child.proxy_op = {::getpid(), 1, 3, 4, 65536, 1};
    plugin.start_event(context, &handle, &child);
    nccl::Event of_step{};
    of_step.type = nccl::kProxyStep;
    of_step.parent = handle;
    of_step.proxy_step.step = 2;
    plugin.start_event(context, &step, &of_step);
    nccl::StateArguments sent{};
    sent.bytes = 4096;
    plugin.record_state(step, nccl::kStepSendGpuWait, nullptr);
    plugin.record_state(step, nccl::kStepSendWait, &sent);
    plugin.stop_event(step);
    plugin.stop_event(handle);
    // With PXN the parent is of another process.
    child.proxy_op.pid = 1;
    plugin.start_event(context, &handle, &child);
    plugin.stop_event(handle);
  });
  proxy.join();
}

// In a process of its own: a recording is of a whole process. The exit code.
int replay(const std::string& folder, int threads, int calls) {
  ::setenv(kDirectoryVariable, folder.c_str(), 1);
  std::string unknown;
  ::setenv(kKindsVariable, std::to_string(*parse_kinds("+nccl-steps", unknown)).c_str(), 1);
  void* const library = ::dlopen(FOREGATHER_INJECT, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  const auto* const v5 = static_cast<const nccl::ProfilerV5*>(::dlsym(library, "ncclProfiler_v5"));
  const auto* const v4 = static_cast<const nccl::ProfilerV4*>(::dlsym(library, "ncclProfiler_v4"));
  if (v5 == nullptr || v4 == nullptr) return 11;
  void *context = nullptr, *context_v4 = nullptr;
  int mask = 0;
  if (v5->init(&context, 0xabcd, &mask, "default_pg", 2, 16, 3, nullptr) != 0) return 12;
  constexpr int kAll = nccl::kGroup | nccl::kCollective | nccl::kP2p | nccl::kProxyOp |
                       nccl::kProxyStep | nccl::kKernelChannel | nccl::kGroupApi |
                       nccl::kCollectiveApi | nccl::kP2pApi | nccl::kKernelLaunch;
  if (mask != kAll) return 13;
  if (v4->init(&context_v4, &mask, nullptr, 0xef, 1, 2, 0, nullptr) != 0) return 14;
  std::vector<std::thread> users;
  for (int t = 0; t < threads; ++t)
    users.emplace_back([&, t] {
      for (int i = 0; i < calls; ++i)
        one_call(*v5, context, static_cast<std::uint64_t>(t * calls + i), true);
    });
  for (std::thread& user : users) user.join();
  one_call(*v4, context_v4, 77, false);
  // A point-to-point call, calls that make no sense, and more events than there are places.
  nccl::Event event{};
  void* handle = nullptr;
  event.type = nccl::kP2p;
  event.p2p = {"Send", nullptr, "ncclFloat32", 256, 5, 1, nullptr};
  v5->start_event(context, &handle, &event);
  v5->stop_event(handle);
  v5->stop_event(handle);
  v5->stop_event(nullptr);
  v5->record_state(handle, nccl::kKernelChannelStop, nullptr);
  event.type = std::uint64_t{1} << 40U;
  v5->start_event(context, &handle, &event);
  if (handle != nullptr) return 15;
  event = collective(nullptr, 1);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    v5->start_event(context, &handle, &event);
    refused += handle == nullptr ? 1 : 0;
  }
  if (refused != 10000 - 8192) return 16;
  if (v5->finalize(context) != 0 || v4->finalize(context_v4) != 0) return 17;
  ::dlclose(library);
  return 0;
}

TEST_CASE("nccl: every callback, from several threads, becomes rows that know their parents") {
  const test::Scratch scratch;
  const std::string folder = scratch.path("raw");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) std::exit(replay(folder, 4, 50));
  REQUIRE(test::wait_for(pid) == 0);
  const auto files = test::raw_files(folder);
  REQUIRE(files.size() == 1);
  const std::string& raw = files.front();
  CHECK(query(raw,
              "SELECT communicator, value, nodes, ranks, rank FROM "
              "FOREGATHER_NCCL_COMMUNICATOR LEFT JOIN StringIds ON id = nameId") ==
        Rows{{"43981", "default_pg", "2", "16", "3"}, {"239", "-", "1", "2", "0"}});
  // 4 threads, 50 calls; and one by version 4.
  CHECK(value(raw, "SELECT count(*) FROM FOREGATHER_NCCL_COLLECTIVE") == "201");
  CHECK(value(raw,
              "SELECT count(DISTINCT sequence) FROM FOREGATHER_NCCL_COLLECTIVE "
              "WHERE communicator = 43981") == "200");
  CHECK(query(raw,
              "SELECT n.value, d.value, a.value, p.value, count, channels, warps FROM "
              "FOREGATHER_NCCL_COLLECTIVE c JOIN StringIds n ON n.id = nameId JOIN StringIds "
              "d ON d.id = datatypeId JOIN StringIds a ON a.id = algorithmId JOIN StringIds "
              "p ON p.id = protocolId WHERE sequence = 77 AND communicator = 239") ==
        Rows{{"AllGather", "ncclBfloat16", "RING", "LL128", "1024", "2", "16"}});
  CHECK(value(raw,
              "SELECT count(*) FROM FOREGATHER_NCCL_CHANNEL k JOIN "
              "FOREGATHER_NCCL_COLLECTIVE c ON c.id = k.parent WHERE k.end >= c.enqueued AND "
              "gpuStart = 5000 AND gpuEnd = 9000") == "402");
  CHECK(value(raw,
              "SELECT count(*) FROM FOREGATHER_NCCL_COMPLETE WHERE channelsEnd >= enqueued "
              "AND proxiesEnd >= enqueued") == "201");
  CHECK(query(raw,
              "SELECT parent IS NULL, ownerPid = 1, count(*) FROM FOREGATHER_NCCL_PROXY "
              "GROUP BY 1, 2") == Rows{{"0", "0", "201"}, {"1", "1", "201"}});
  CHECK(query(raw,
              "SELECT step, bytes, gpuWait > 0, networkWait > 0, peerWait, count(*) FROM "
              "FOREGATHER_NCCL_STEP s JOIN FOREGATHER_NCCL_PROXY p ON p.id = s.parent "
              "GROUP BY 1, 2, 3, 4, 5") == Rows{{"2", "4096", "1", "1", "-", "201"}});
  // A collective lies in its call, that in its group, whose launch is beside it.
  CHECK(value(raw,
              "SELECT count(*) FROM FOREGATHER_NCCL_COLLECTIVE c JOIN FOREGATHER_NCCL_CALL a "
              "ON a.id = c.parent AND a.type = 512 JOIN FOREGATHER_NCCL_CALL g ON g.id = "
              "a.parent AND g.type = 256 JOIN FOREGATHER_NCCL_CALL l ON l.parent = g.id AND "
              "l.type = 2048") == "200");
  CHECK(query(raw,
              "SELECT value, count, peer, channels FROM FOREGATHER_NCCL_P2P JOIN StringIds "
              "ON StringIds.id = nameId") == Rows{{"Send", "256", "5", "1"}});
  CHECK(query(raw, "SELECT * FROM FOREGATHER_COUNT ORDER BY reason") ==
        Rows{{"nccl_events_at_a_time", "1808"},
             {"nccl_state_without_start", "1"},
             {"nccl_stop_without_start", "1"}});
}

namespace {

// A point-to-point call in a group of its own, and each wait of its proxy's steps.
int replay_sends(const std::string& folder) {
  ::setenv(kDirectoryVariable, folder.c_str(), 1);
  std::string unknown;
  ::setenv(kKindsVariable, std::to_string(*parse_kinds("+nccl-steps", unknown)).c_str(), 1);
  void* const library = ::dlopen(FOREGATHER_INJECT, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return 10;
  const auto* const plugin =
      static_cast<const nccl::ProfilerV5*>(::dlsym(library, "ncclProfiler_v5"));
  void* context = nullptr;
  int mask = 0, stream = 0;
  if (plugin->init(&context, 1, &mask, "pp", 1, 2, 0, nullptr) != 0) return 11;
  const auto begun = [&](const nccl::Event& event) {
    void* handle = nullptr;
    plugin->start_event(context, &handle, &event);
    return handle;
  };
  nccl::Event group{}, api{}, send{}, proxy{};
  group.type = nccl::kGroup;
  void* const in_group = begun(group);
  api.type = nccl::kP2pApi;
  api.parent = in_group;
  api.p2p_api = {"Send", 512, "ncclFloat16", &stream, true};
  void* const in_api = begun(api);
  send.type = nccl::kP2p;
  send.parent = in_api;
  send.p2p = {"Send", nullptr, "ncclFloat16", 512, 1, 2, nullptr};
  void* const sent = begun(send);
  plugin->stop_event(sent);
  plugin->stop_event(in_api);
  plugin->stop_event(in_group);
  proxy.type = nccl::kProxyOp;
  proxy.parent = sent;
  proxy.proxy_op = {::getpid(), 0, 1, 8, 4096, 1};
  void* const in_proxy = begun(proxy);
  int number = 0;
  for (const int state : {nccl::kStepSendGpuWait, nccl::kStepSendPeerWait, nccl::kStepSendWait,
                          nccl::kStepRecvGpuWait, nccl::kStepRecvWait, nccl::kStepRecvFlushWait}) {
    nccl::Event step{};
    step.type = nccl::kProxyStep;
    step.parent = in_proxy;
    step.proxy_step.step = number++;
    void* const in_step = begun(step);
    plugin->record_state(in_step, state, nullptr);
    plugin->record_state(in_step, 99, nullptr);  // which nobody knows
    plugin->stop_event(in_step);
  }
  plugin->stop_event(in_proxy);
  const int done = plugin->finalize(context);
  ::dlclose(library);
  return done;
}

}  // namespace

TEST_CASE("nccl: point-to-point calls lie in their groups, and steps wait for one thing each") {
  const test::Scratch scratch;
  const std::string folder = scratch.path("raw");
  REQUIRE(::mkdir(folder.c_str(), 0700) == 0);
  const pid_t pid = ::fork();
  if (pid == 0) std::exit(replay_sends(folder));
  REQUIRE(test::wait_for(pid) == 0);
  const auto files = test::raw_files(folder);
  REQUIRE(files.size() == 1);
  const std::string& raw = files.front();
  CHECK(query(raw,
              "SELECT a.type, n.value, a.count, d.value, a.peer, a.stream != 0, a.captured, "
              "g.type, g.nameId, p.peer, p.channels FROM FOREGATHER_NCCL_P2P p JOIN "
              "FOREGATHER_NCCL_CALL a ON a.id = p.parent JOIN FOREGATHER_NCCL_CALL g ON g.id = "
              "a.parent JOIN StringIds n ON n.id = a.nameId JOIN StringIds d ON d.id = "
              "a.datatypeId") ==
        Rows{{"1024", "Send", "512", "ncclFloat16", "-", "1", "1", "1", "-", "1", "2"}});
  CHECK(query(raw,
              "SELECT step, gpuWait > 0, peerWait > 0, networkWait > 0, flushWait > 0 FROM "
              "FOREGATHER_NCCL_STEP ORDER BY step") == Rows{{"0", "1", "-", "-", "-"},
                                                            {"1", "-", "1", "-", "-"},
                                                            {"2", "-", "-", "1", "-"},
                                                            {"3", "1", "-", "-", "-"},
                                                            {"4", "-", "-", "1", "-"},
                                                            {"5", "-", "-", "-", "1"}});
}

TEST_CASE("nccl: without a recording the plug-in asks for nothing") {
  const pid_t pid = ::fork();
  if (pid == 0) {
    ::unsetenv(kDirectoryVariable);
    void* const library = ::dlopen(FOREGATHER_INJECT, RTLD_NOW | RTLD_LOCAL);
    const auto* const plugin =
        static_cast<const nccl::ProfilerV5*>(::dlsym(library, "ncclProfiler_v5"));
    void *context = nullptr, *handle = nullptr;
    int mask = -1;
    const int made = plugin->init(&context, 1, &mask, "x", 1, 1, 0, nullptr);
    const nccl::Event event = collective(nullptr, 1);
    const int started = plugin->start_event(context, &handle, &event);
    std::exit(made == 0 && mask == 0 && started == 0 && handle == nullptr ? 0 : 1);
  }
  CHECK(test::wait_for(pid) == 0);
}

}  // namespace
}  // namespace foregather::profiler

#endif
