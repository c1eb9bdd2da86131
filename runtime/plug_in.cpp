#include "runtime/plug_in.h"

#include <dlfcn.h>

#include <array>
#include <filesystem>

#include "core/base/suggest.h"
#include "runtime/host/host_backend.h"

namespace foregather::runtime {
namespace {

constexpr std::array<std::string_view, 2> kNames{"host", "cuda"};

Result<BackendHandle> open_plug_in(const std::string& name) {
  std::error_code ignored;
  const std::string file = fmt::format("libforegather_backend_{}.so", name);
  const auto path = std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / file;
  if (!std::filesystem::exists(path, ignored))
    return fail_at("--backend",
                   "{} is a plug-in, and there is no {} beside the program: build it where the "
                   "CUDA toolkit is installed, or use host",
                   name, file);
  void* const library = ::dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return fail_at("--backend", "{} cannot be opened: {}", file, ::dlerror());
  const auto entry = reinterpret_cast<BackendEntry>(::dlsym(library, kBackendEntry));
  const BackendPlugin* const plug_in = entry == nullptr ? nullptr : entry();
  if (plug_in == nullptr || plug_in->version != kBackendVersion)
    return fail_at("--backend", "{} is of another version of this program", file);
  return BackendHandle(plug_in->create(), {plug_in->destroy});
}

}  // namespace

Result<BackendHandle> open_backend(const std::string& name) {
  if (name == "host") return BackendHandle(make_host_backend().release(), {});
  if (name == "cuda") return open_plug_in(name);
  return fail_at("--backend", "unknown backend '{}'{}; known are host, cuda", name,
                 did_you_mean(name, kNames));
}

}  // namespace foregather::runtime
