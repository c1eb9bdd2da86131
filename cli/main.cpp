#include <exception>
#include <new>

#include "cli/build_info.h"
#include "cli/command.h"
#include "cli/parser.h"
#include "cli/terminal.h"
#include "core/base/file.h"
#include "core/base/heap.h"
#include "core/base/last_words.h"

// Exceptions come from the standard library alone; none is expected.
int main(int argc, char** argv) {
  using namespace foregather::cli;
  foregather::keep_freed_memory();
  foregather::remove_temporaries_on_signals();
  foregather::end_in_order();
  try {
    return dispatch(commands(), build_text(), argc, argv);
  } catch (const std::bad_alloc&) {
    complain("out of memory");
  } catch (const std::system_error& error) {
    complain(foregather::lacks_threads(error) ? "no more threads can be started"
                                              : std::string("internal error: ") + error.what());
  } catch (const std::exception& error) {
    complain(std::string("internal error: ") + error.what());
  }
  return 1;
}
