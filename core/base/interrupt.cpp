#include "core/base/interrupt.h"

namespace foregather {
namespace {

thread_local const std::atomic<bool>* stop_flag = nullptr;

}  // namespace

Interruptible::Interruptible(const std::atomic<bool>& stop) : outer_(stop_flag) {
  stop_flag = &stop;
}

Interruptible::~Interruptible() { stop_flag = outer_; }

const std::atomic<bool>* interrupt_flag() { return stop_flag; }

bool is_interrupted() { return stop_flag != nullptr && stop_flag->load(std::memory_order_relaxed); }

tl::unexpected<Error> interrupted_at(const std::string& place) {
  return fail_work(place, "reading was canceled");
}

}  // namespace foregather
