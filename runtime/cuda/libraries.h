// Libraries of CUDA that are used where they are: opened at run time, never linked.
#pragma once

#include <string>
#include <vector>

namespace foregather::runtime::cuda {

/// An open library; never closed: they leave threads and handlers behind.
struct Library {
  void* handle = nullptr;  ///< null: not found
  std::string path;        ///< as opened

  template <class Entry>
  bool find(const char* name, Entry& entry) const {
    entry = reinterpret_cast<Entry>(symbol(name));
    return entry != nullptr;
  }
  void* symbol(const char* name) const;
};

/// The first of `names` ("libnccl.so.2") that can be opened: as the loader finds it, which looks
/// into LD_LIBRARY_PATH too; then in $CUDA_HOME/lib64 and /usr/local/cuda/lib64; then in `package`
/// ("nccl", "cublas", "cu13") of nvidia/ beside the site-packages of $VIRTUAL_ENV or of the
/// python3 in PATH, where PyTorch brings its own.
Library open_library(const std::vector<std::string>& names,
                     const std::vector<std::string>& packages);

}  // namespace foregather::runtime::cuda
