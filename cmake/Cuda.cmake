# Whether what needs nvcc is built: runtime/cuda and tests/gpu. The language belongs to all folders or to
# none, so it is enabled here.
set(FOREGATHER_BUILD_CUDA OFF)
if(FOREGATHER_HAVE_CUDA AND NOT FOREGATHER_SANITIZE AND NOT FOREGATHER_FUZZ)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER AND EXISTS "${CUDAToolkit_INCLUDE_DIRS}/cublasLt.h")
    # 8.0 and 9.0, and an intermediate form that drivers compile for later ones.
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90)
    enable_language(CUDA)
    set(FOREGATHER_BUILD_CUDA ON)
  else()
    message(STATUS "CUDA backend: left out, nvcc or cublasLt.h is missing")
  endif()
endif()
