// The main function of every Catch2 test program. Exit status: Catch2's own; 77 where nothing
// failed and at least one case skipped itself, which ctest reports as skipped.
#define CATCH_CONFIG_RUNNER
#include <catch2/catch.hpp>

#include "tests/support/skip.h"

int main(int argc, char** argv) {
  const int status = Catch::Session().run(argc, argv);
  return status == 0 && foregather::test::skipped_cases() > 0 ? 77 : status;
}
