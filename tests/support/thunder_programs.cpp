#include "tests/support/thunder_programs.h"

#include <fmt/format.h>

namespace foregather::test {
namespace {

/// Writes the statements of the paths' stages.
class Program {
 public:
  Program(int paths, int size) : paths_(paths), size_(size) {
    text_ = "@torch.no_grad()\n@no_autocast\ndef computation(";
    for (int path = 0; path < paths; ++path) text_ += fmt::format("x{}, ", path);
    text_ += "a):\n";
    for (int path = 0; path < paths; ++path) comment(fmt::format("x{}", path));
    comment("a");
  }

  void first_relu(int path) { one(fmt::format("r{}", path), fmt::format("torch.relu(x{})", path)); }
  void square(int path) {
    one(fmt::format("m{}", path), fmt::format("torch.matmul(r{0}, r{0})", path));
    text_ += fmt::format("  del r{}\n", path);
  }
  void second_relu(int path) {
    one(fmt::format("s{}", path), fmt::format("torch.relu(m{})", path));
    text_ += fmt::format("  del m{}\n", path);
  }
  void carry(int path) {
    const std::string before = path == 0 ? "a" : fmt::format("c{}", path - 1);
    one(fmt::format("c{}", path), fmt::format("torch.matmul(s{}, {})", path, before));
    text_ += path == 0 ? fmt::format("  del s0\n") : fmt::format("  del s{}, {}\n", path, before);
  }
  /// All relus of a stage in one region.
  void region(char out, char in, int number, bool frees) {
    text_ += "  [" + list(out) + fmt::format("] = nvFusion{}(", number) + list(in) + ")\n";
    for (int path = 0; path < paths_; ++path) {
      text_ +=
          fmt::format("    # {0}b{1} = prims.gt({2}{1}, 0.0)  # {0}b{1}: \"cuda:0 b8[{3}, {3}]\"\n",
                      out, path, in, size_);
      text_ += fmt::format("    # {0}{1} = prims.where({0}b{1}, {2}{1}, 0.0)  # {0}{1}: {3}\n", out,
                           path, in, type());
    }
    if (frees) text_ += "  del " + list(in) + "\n";
  }
  std::string finish() const { return text_ + fmt::format("  return c{}\n", paths_ - 1); }

 private:
  std::string type() const { return fmt::format("\"cuda:0 f32[{0}, {0}]\"", size_); }
  void comment(const std::string& name) { text_ += fmt::format("  # {}: {}\n", name, type()); }
  void one(const std::string& name, const std::string& call) {
    text_ += fmt::format("  {0} = {1}  # {0}: {2}\n", name, call, type());
  }
  std::string list(char name) const {
    std::string names;
    for (int path = 0; path < paths_; ++path)
      names += fmt::format("{}{}{}", path == 0 ? "" : ", ", name, path);
    return names;
  }

  int paths_, size_;
  std::string text_;
};

}  // namespace

std::string paths_one_by_one(int paths, int size) {
  Program program(paths, size);
  for (int path = 0; path < paths; ++path) {
    program.first_relu(path);
    program.square(path);
    program.second_relu(path);
    program.carry(path);
  }
  return program.finish();
}

std::string paths_stage_by_stage(int paths, int size) {
  Program program(paths, size);
  for (int path = 0; path < paths; ++path) program.first_relu(path);
  for (int path = 0; path < paths; ++path) program.square(path);
  for (int path = 0; path < paths; ++path) program.second_relu(path);
  for (int path = 0; path < paths; ++path) program.carry(path);
  return program.finish();
}

std::string paths_horizontal(int paths, int size) {
  Program program(paths, size);
  program.region('r', 'x', 0, false);
  for (int path = 0; path < paths; ++path) program.square(path);
  program.region('s', 'm', 1, true);
  for (int path = 0; path < paths; ++path) program.carry(path);
  return program.finish();
}

std::string paths_relus_first(int paths, int size) {
  Program program(paths, size);
  for (int path = 0; path < paths; ++path) {
    program.first_relu(path);
    program.square(path);
    program.second_relu(path);
  }
  for (int path = 0; path < paths; ++path) program.carry(path);
  return program.finish();
}

}  // namespace foregather::test
