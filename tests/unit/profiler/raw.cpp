#include "tests/unit/profiler/raw.h"

#include <fcntl.h>
#include <sqlite3.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include <catch2/catch.hpp>

namespace foregather::test {

std::vector<std::vector<std::string>> query(const std::string& path, const std::string& sql) {
  sqlite3* database = nullptr;
  REQUIRE(sqlite3_open_v2(path.c_str(), &database, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  sqlite3_stmt* statement = nullptr;
  INFO(sql);
  const int code = sqlite3_prepare_v2(database, sql.c_str(), -1, &statement, nullptr);
  INFO(sqlite3_errmsg(database));
  REQUIRE(code == SQLITE_OK);
  std::vector<std::vector<std::string>> rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    std::vector<std::string>& row = rows.emplace_back();
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement, i));
      row.emplace_back(text == nullptr ? "-" : text);
    }
  }
  sqlite3_finalize(statement);
  sqlite3_close(database);
  return rows;
}

std::string value(const std::string& path, const std::string& sql) {
  const auto rows = query(path, sql);
  REQUIRE(rows.size() == 1);
  return rows.front().front();
}

pid_t start(const std::vector<std::string>& command,
            const std::map<std::string, std::string>& variables, const std::string& errors) {
  std::vector<char*> arguments;
  for (const std::string& argument : command)
    arguments.push_back(const_cast<char*>(argument.c_str()));
  arguments.push_back(nullptr);
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  for (const auto& [name, text] : variables) ::setenv(name.c_str(), text.c_str(), 1);
  if (!errors.empty()) {
    const int file = ::open(errors.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
    ::dup2(file, STDERR_FILENO);
  }
  ::execvp(arguments[0], arguments.data());
  ::_exit(127);
}

int wait_for(pid_t pid) {
  constexpr int kSignal = 128;
  int status = 0;
  REQUIRE(::waitpid(pid, &status, 0) == pid);
  return WIFEXITED(status) ? WEXITSTATUS(status) : kSignal + WTERMSIG(status);
}

std::vector<std::string> raw_files(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder))
    if (entry.path().extension() == ".sqlite") files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

}  // namespace foregather::test
