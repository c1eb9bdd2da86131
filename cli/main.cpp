#include <exception>
#include <new>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/parser.h"
#include "cli/terminal.h"
#include "core/base/file.h"
#include "core/base/heap.h"

// Exceptions come from the standard library alone; none is expected.
int main(int argc, char** argv) {
  using namespace foregather::cli;
  foregather::keep_freed_memory();
  foregather::remove_pending_files_on_signals();
  try {
    return dispatch(commands(), build_text(), argc, argv);
  } catch (const std::bad_alloc&) {
    complain("out of memory");
  } catch (const std::exception& error) {
    complain(std::string("internal error: ") + error.what());
  }
  return 1;
}
