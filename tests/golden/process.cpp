#include "tests/golden/process.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <stdexcept>

namespace foregather::test {
namespace {

std::string content(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

[[noreturn]] void become(const std::vector<std::string>& arguments, const std::string& directory,
                         const std::string& out, const std::string& err) {
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  const int in_file = ::open("/dev/null", O_RDONLY);
  const int out_file = ::open(out.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  const int err_file = ::open(err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  if (::chdir(directory.c_str()) != 0 || in_file < 0 || out_file < 0 || err_file < 0) ::_exit(126);
  ::dup2(in_file, 0);
  ::dup2(out_file, 1);
  ::dup2(err_file, 2);
  ::execv(argv[0], argv.data());
  ::_exit(127);
}

}  // namespace

ProcessResult run_process(const std::vector<std::string>& arguments, const std::string& directory,
                          const std::string& stdout_file) {
  const TemporaryDirectory scratch;
  const std::string out = stdout_file.empty() ? scratch.path() + "/out" : stdout_file;
  const std::string err = scratch.path() + "/err";
  const pid_t child = ::fork();
  if (child == 0) become(arguments, directory, out, err);
  if (child < 0) throw std::runtime_error("fork failed");
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) continue;
  ProcessResult result;
  result.exit = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  if (stdout_file.empty()) result.out = content(out);
  result.err = content(err);
  return result;
}

TemporaryDirectory::TemporaryDirectory() {
  std::string name = (std::filesystem::temp_directory_path() / "foregather-XXXXXX").string();
  if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp failed");
  path_ = name;
}

TemporaryDirectory::~TemporaryDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace foregather::test
