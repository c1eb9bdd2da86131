// What must hold on the published results, by results made by hand.
#include <catch2/catch.hpp>

#include "tasks/validation/bars.h"

using namespace foregather;
using namespace foregather::tasks;

namespace {

std::optional<bool> holds(const Validation& validation, const std::string& part) {
  for (const Bar& bar : bars(validation))
    if (bar.text.find(part) != std::string::npos) return bar.holds;
  FAIL("no bar says " << part);
  return {};
}

RowResult ran(double predicted_s, const std::string& notes) {
  RowResult result;
  result.row.notes = notes;
  result.row.step_time_s = 1;
  result.prediction.step = static_cast<Ns>(predicted_s * 1e9);
  result.prediction.fits = true;
  return result;
}

NcclRow measured(const std::string& table, Bytes size, double predicted_us) {
  NcclRow row;
  row.table = table;
  row.size = size;
  row.published_us = 100;
  row.predicted_us = predicted_us;
  return row;
}

}  // namespace

TEST_CASE("each step that an emulator was held to is a bar's") {
  Validation validation;
  validation.rows = {ran(2, ""), ran(1.04, "[PHANTORA-VAL]")};
  CHECK(holds(validation, "PHANTORA-VAL") == true);
  validation.rows.push_back(ran(0.94, "[PHANTORA-VAL]"));
  CHECK(holds(validation, "PHANTORA-VAL") == false);
  validation.rows = {ran(1, "")};
  CHECK_FALSE(holds(validation, "PHANTORA-VAL"));
}

TEST_CASE("a wrong answer to whether it fits is one where the device is not within the margin") {
  Validation validation;
  validation.rows = {ran(1, "")};
  CHECK(holds(validation, "does it fit?") == true);
  RowResult full = ran(1, "OOM");
  full.row.step_time_s.reset();
  full.prediction.is_close_call = true;
  validation.rows.push_back(full);
  CHECK(validation.wrong_fits() == 1);
  CHECK(holds(validation, "does it fit?") == true);
  validation.rows.back().prediction.is_close_call = false;
  CHECK(holds(validation, "does it fit?") == false);
  validation.rows.back().prediction.skipped = "no";
  CHECK(holds(validation, "does it fit?") == true);
  validation.rows = {full};
  validation.rows.back().row.notes.clear();
  CHECK_FALSE(holds(validation, "does it fit?"));
}

TEST_CASE("a table of collectives must not hide behind the others") {
  Validation validation;
  for (int i = 0; i < 9; ++i) validation.collectives.push_back(measured("good", 1 * MiB, 101));
  CHECK(holds(validation, "of each table") == true);
  validation.collectives.push_back(measured("bad", 1 * MiB, 130));
  CHECK(holds(validation, "from 1 MiB on, median error at most") == true);
  CHECK(holds(validation, "of each table") == false);
  validation.collectives = {measured("small", 1 * KiB, 130)};
  CHECK_FALSE(holds(validation, "of each table"));
}
