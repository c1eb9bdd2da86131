#include "gui/views/recent_list.h"

#include <QSettings>
#include <QStringList>
#include <filesystem>

#include "gui/models/recent_files.h"

namespace foregather::gui {
namespace {

constexpr auto kRecent = "recent files";

}  // namespace

std::vector<std::string> recent_files() {
  std::vector<std::string> files;
  const QStringList stored = QSettings().value(kRecent).toStringList();
  for (const QString& file : stored) files.push_back(file.toStdString());
  return files;
}

void remember_files(const std::vector<std::string>& files) {
  std::vector<std::string> paths;
  for (const std::string& file : files) {
    std::error_code failed;
    const bool is_whole = std::filesystem::exists(file, failed);
    const std::string path = is_whole ? file : file.substr(0, file.rfind(':'));
    if (!is_whole && !std::filesystem::exists(path, failed)) continue;
    const auto absolute = std::filesystem::absolute(path, failed);
    if (!failed) paths.push_back(absolute.string() + file.substr(path.size()));
  }
  if (paths.empty()) return;
  QStringList stored;
  for (const std::string& file : with_recent(recent_files(), paths))
    stored << QString::fromStdString(file);
  QSettings().setValue(kRecent, stored);
}

}  // namespace foregather::gui
