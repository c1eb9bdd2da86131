#include "tasks/validation/validate.h"

#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>

#include "core/base/file.h"
#include "tasks/outputs.h"
#include "tasks/parallel.h"
#include "tasks/validation/fit.h"
#include "tasks/validation/nccl_fit.h"
#include "tasks/validation/report.h"
#include "tasks/validation/tables_out.h"

namespace foregather::tasks {
namespace {

/// The folder that holds the rows' workloads; removed at the end unless the user named it.
class WorkloadFolder {
 public:
  static Result<WorkloadFolder> create(const std::string& named) {
    if (named.empty())
      return TemporaryFolder::create("foregather-validate").map([](TemporaryFolder&& temporary) {
        auto path = temporary.path();
        return WorkloadFolder(std::move(path), std::move(temporary));
      });
    std::error_code problem;
    std::filesystem::create_directories(named, problem);
    if (problem) return fail_at(named, "{}", problem.message());
    return WorkloadFolder(named, std::nullopt);
  }

  const std::string& path() const { return path_; }

 private:
  WorkloadFolder(std::string path, std::optional<TemporaryFolder> temporary)
      : path_(std::move(path)), temporary_(std::move(temporary)) {}

  std::string path_;
  std::optional<TemporaryFolder> temporary_;
};

Status write(const std::string& path, const std::string& text) {
  auto file = PendingFile::create(path);
  if (!file) return tl::unexpected(file.error());
  return file->write(text).and_then([&] { return file->commit(); });
}

/// Beside the report and named for it: docs/validation.md has its pictures in docs/validation/.
std::string picture_folder(const std::string& report) {
  return std::filesystem::path(report).stem().string();
}

Status write_pictures(const std::string& report, const Validation& validation) {
  const auto folder = std::filesystem::path(report).parent_path() / picture_folder(report);
  for (const Picture& picture : pictures_of(validation)) {
    std::error_code problem;
    std::filesystem::create_directories(folder, problem);
    if (problem) return fail_at(folder.string(), "{}", problem.message());
    if (Status done = write((folder / picture.file).string(), picture.svg); !done) return done;
  }
  return {};
}

std::string beside(const std::string& predictions) {
  return std::filesystem::path(predictions).replace_filename("nccl_predictions.csv").string();
}

// What is written is nothing that is read, now or by the same command again.
Status check_places(const ValidateRequest& request) {
  namespace fs = std::filesystem;
  std::vector<std::string> outputs;
  for (const std::string& path : {request.predictions, request.report})
    if (!path.empty()) outputs.push_back(path);
  if (!request.predictions.empty() && !request.nccl_tests.empty())
    outputs.push_back(beside(request.predictions));
  if (Status apart =
          check_outputs(outputs, {request.measured, request.gpu_check, request.gpu_steps});
      !apart)
    return apart;
  if (request.nccl_tests.empty()) return {};
  for (const std::string& path : outputs) {
    const fs::path folder = fs::path(path).parent_path();
    if (path.ends_with(".csv") &&
        is_same_file(folder.empty() ? "." : folder.string(), request.nccl_tests))
      return fail_at(path, "is in the folder of tables that are read, expected another place");
  }
  return {};
}

Status write_outputs(const ValidateRequest& request, const Validation& validation) {
  if (!request.predictions.empty()) {
    if (Status done = write(request.predictions, predictions_csv(validation.rows)); !done)
      return done;
    if (!request.nccl_tests.empty())
      if (Status done =
              write(beside(request.predictions), nccl_predictions_csv(validation.collectives));
          !done)
        return done;
  }
  if (request.report.empty()) return {};
  if (Status done = write_pictures(request.report, validation); !done) return done;
  return write(request.report, report_markdown(validation, picture_folder(request.report)));
}

Result<std::string> text_of(const std::string& path) {
  constexpr Bytes kLongest = 16 * MiB;
  auto text = read_file(path, kLongest);
  if (text && !text->starts_with('|'))
    return fail_at(path, "is no table, expected measured.md of gpu-check");
  return text;
}

}  // namespace

std::map<std::string, std::size_t> Validation::skipped() const {
  std::map<std::string, std::size_t> reasons;
  for (const RowResult& row : rows)
    if (!row.prediction.is_predicted()) ++reasons[row.prediction.skipped];
  for (const NcclRow& row : collectives)
    if (!row.predicted_us) ++reasons[row.skipped];
  return reasons;
}

std::size_t Validation::wrong_fits() const {
  std::size_t wrong = 0;
  for (const RowResult& row : rows) wrong += row.is_wrong_fit() ? 1 : 0;
  return wrong;
}

Result<std::string> fit_to(const ValidateRequest& request,
                           const std::function<void(const FitProgress&)>& progress) {
  if (request.measured.empty() && request.nccl_tests.empty())
    return fail("--fit: nothing to fit to, expected --measured or --nccl-tests");
  std::string text;
  if (!request.measured.empty()) {
    auto folder = WorkloadFolder::create(request.workloads);
    if (!folder) return tl::unexpected(folder.error());
    const auto fitted = fit(request.measured, folder->path(), request.gpu_steps, progress);
    if (!fitted) return tl::unexpected(fitted.error());
    text += fit_text(*fitted);
  }
  if (!request.nccl_tests.empty()) {
    const auto fitted = fit_nccl(request.nccl_tests);
    if (!fitted) return tl::unexpected(fitted.error());
    text += fit_text(*fitted);
  }
  return text;
}

Result<Validation> validate(const ValidateRequest& request) {
  if (Status apart = check_places(request); !apart) return tl::unexpected(apart.error());
  Validation validation;
  if (!request.measured.empty()) {
    auto rows = read_measured(request.measured);
    if (!rows) return tl::unexpected(rows.error());
    auto folder = WorkloadFolder::create(request.workloads);
    if (!folder) return tl::unexpected(folder.error());
    for (MeasuredRow& row : *rows) validation.rows.push_back({std::move(row), {}});
    in_parallel(validation.rows.size(), [&](std::size_t i) {
      RowResult& result = validation.rows[i];
      result.prediction = predict_row(result.row, folder->path());
    });
  }
  if (!request.nccl_tests.empty()) {
    auto collectives = predict_nccl_tables(request.nccl_tests);
    if (!collectives) return tl::unexpected(collectives.error());
    validation.collectives = std::move(*collectives);
  }
  if (!request.gpu_check.empty()) {
    auto table = text_of(request.gpu_check);
    if (!table) return tl::unexpected(table.error());
    validation.gpu_check = std::move(*table);
  }
  if (!request.gpu_steps.empty()) {
    auto steps = predict_gpu_steps(request.gpu_steps);
    if (!steps) return tl::unexpected(steps.error());
    validation.gpu_steps = std::move(*steps);
  }
  if (Status done = write_outputs(request, validation); !done) return tl::unexpected(done.error());
  return validation;
}

}  // namespace foregather::tasks
