// For compilers without libFuzzer: runs the target on files, then on mutations of them for a time.
//
//   fuzz_snapshot [-max_total_time=SECONDS] [-seed=N] [FILE or FOLDER]...
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

namespace {

std::string content(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

void run(const std::string& input) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(input.data()), input.size());
}

std::string mutated(std::string input, const std::vector<std::string>& seeds,
                    std::mt19937_64& random) {
  const auto below = [&](std::size_t limit) { return limit == 0 ? 0 : random() % limit; };
  for (std::size_t edits = 1 + below(6); edits-- > 0;) {
    const std::size_t at = below(input.size() + 1);
    const std::size_t length = below(64);
    switch (below(6)) {
      case 0:
        if (at < input.size()) input[at] = static_cast<char>(random());
        break;
      case 1:
        if (at < input.size()) input[at] ^= static_cast<char>(1 << below(8));
        break;
      case 2: input.insert(at, 1, static_cast<char>(random())); break;
      case 3: input.erase(at, length); break;
      case 4: input.insert(at, input.substr(below(input.size() + 1), length)); break;
      default: {
        const std::string& other = seeds[below(seeds.size())];
        input.insert(at, other.substr(below(other.size() + 1), length));
      }
    }
  }
  return input;
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> seeds{std::string("\x80\x04}.", 4)};
  double seconds = 0;
  std::uint64_t seed = 1;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("-max_total_time="))
      seconds = std::atof(argv[i] + argument.find('=') + 1);
    else if (argument.starts_with("-seed="))
      seed = std::strtoull(argv[i] + argument.find('=') + 1, nullptr, 10);
    else if (std::filesystem::is_directory(argument))
      for (const auto& entry : std::filesystem::directory_iterator(argument))
        seeds.push_back(content(entry.path()));
    else
      seeds.push_back(content(argument));
  }
  for (const std::string& input : seeds) run(input);
  const auto until = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  std::mt19937_64 random(seed);
  std::size_t runs = seeds.size();
  for (; std::chrono::steady_clock::now() < until; ++runs)
    run(mutated(seeds[random() % seeds.size()], seeds, random));
  std::printf("%zu inputs\n", runs);
  return 0;
}
