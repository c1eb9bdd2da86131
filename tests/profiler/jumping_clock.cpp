// Preloaded: what asks for the time of day is an hour ahead of the kernel, half a second after the
// first question. So it is for a wait until a time of day when somebody sets the clock back.
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <ctime>

namespace {

constexpr long kNanoseconds = 1'000'000'000, kHour = 3600;
std::atomic<long> first_question{0};

long now(clockid_t clock, timespec* time) {
  ::syscall(SYS_clock_gettime, clock, time);
  return time->tv_sec * kNanoseconds + time->tv_nsec;
}

}  // namespace

extern "C" int clock_gettime(clockid_t clock, timespec* time) noexcept {
  now(clock, time);
  if (clock != CLOCK_REALTIME) return 0;
  timespec monotonic{};
  const long asked = now(CLOCK_MONOTONIC, &monotonic);
  long first = 0;
  if (first_question.compare_exchange_strong(first, asked)) first = asked;
  if (asked - first > kNanoseconds / 2) time->tv_sec += kHour;
  return 0;
}
