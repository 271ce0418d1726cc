#include "bench/openblas.h"

#include <dlfcn.h>

#include <cstdlib>

#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

// cblas.h's names for its arguments.
constexpr int kRowMajor = 101;
constexpr int kNoTranspose = 111;
constexpr int kTranspose = 112;

template <class Function>
bool find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  return function != nullptr;
}

}  // namespace

std::optional<OpenBlas> OpenBlas::load() {
  // Read once, when the library is loaded; what the user has set stays. The kernels of the same instruction set:
  if (isa() == Isa::avx2) setenv("OPENBLAS_CORETYPE", "Haswell", 0);
  if (isa() == Isa::baseline) setenv("OPENBLAS_CORETYPE", "Nehalem", 0);
  // Its idle threads sleep after 2^18 cycles (0.1 ms) instead of 2^26, which would be in the middle of our turn.
  setenv("OPENBLAS_THREAD_TIMEOUT", "18", 0);
  void* library = dlopen("libopenblas.so.0", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return std::nullopt;
  OpenBlas blas;
  const bool complete = find(library, "openblas_set_num_threads", blas.set_num_threads_) &&
                        find(library, "cblas_sgemm", blas.sgemm_) && find(library, "cblas_sgemv", blas.sgemv_);
  return complete ? std::optional(blas) : std::nullopt;
}

void OpenBlas::matmul(View<const float, 2> a, View<const float, 2> b, View<float, 2> c) const {
  const auto m = static_cast<int>(a.size(0));
  const auto k = static_cast<int>(a.size(1));
  const auto n = static_cast<int>(b.size(1));
  if (m == 1) {
    sgemv_(kRowMajor, kTranspose, k, n, 1.0F, b.data(), n, a.data(), 1, 0.0F, c.data(), 1);
  } else {
    sgemm_(kRowMajor, kNoTranspose, kNoTranspose, m, n, k, 1.0F, a.data(), k, b.data(), n, 0.0F, c.data(), n);
  }
}

}  // namespace heed::bench
