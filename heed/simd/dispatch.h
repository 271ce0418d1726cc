// Selects the kernel for the current instruction set. Internal: used by the library's sources only.
#pragma once

#include <utility>

#include "heed/core/error.h"
#include "heed/simd/isa.h"

namespace heed {

// Calls f.operator()<isa>() for the instruction set in use. Kernels are templates on Isa; each specialisation is
// compiled in its own translation unit (heed/simd/target.h). HEED_HAS_* come from cmake/kernels.cmake.
template <class F>
decltype(auto) dispatch(F&& f) {
#if defined(HEED_HAS_AVX512)
  if (isa() == Isa::avx512) return std::forward<F>(f).template operator()<Isa::avx512>();
#endif
#if defined(HEED_HAS_AVX2)
  if (isa() == Isa::avx2) return std::forward<F>(f).template operator()<Isa::avx2>();
#endif
#if defined(HEED_HAS_BASELINE)
  if (isa() == Isa::baseline) return std::forward<F>(f).template operator()<Isa::baseline>();
#endif
  fail("dispatch", "no kernels for ", isa_name(isa()), " in this build; configure with it in HEED_ISAS");
}

}  // namespace heed
