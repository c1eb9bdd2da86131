#include "runtime/plug_in.h"

#include <dlfcn.h>

#include <array>

#include "core/base/program_files.h"
#include "core/base/suggest.h"
#include "runtime/host/host_backend.h"

namespace foregather::runtime {
namespace {

constexpr std::array<std::string_view, 2> kNames{"host", "cuda"};

std::string file_of(const std::string& name) {
  return fmt::format("libforegather_backend_{}.so", name);
}

Result<BackendHandle> open_plug_in(const std::string& name) {
  const std::string path = backend_plug_in(name), file = file_of(name);
  if (path.empty())
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
  BackendHandle backend(plug_in->create(), {plug_in->destroy});
  if (const Status ready = backend->ready(); !ready) return tl::unexpected(ready.error());
  return backend;
}

}  // namespace

std::string backend_plug_in(const std::string& name) { return own_library(file_of(name)); }

Result<BackendHandle> open_backend(const std::string& name) {
  if (name == "host") return BackendHandle(make_host_backend().release(), {});
  if (name == "cuda") return open_plug_in(name);
  return fail_at("--backend", "unknown backend '{}'{}; known are host, cuda", name,
                 did_you_mean(name, kNames));
}

}  // namespace foregather::runtime
