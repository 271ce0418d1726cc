// Aligned memory: the buffer behind Tensor and Arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace heed {

// The size of a cache line and of the widest vector register, in bytes.
inline constexpr size_t kAlignment = 64;

struct AlignedFree {
  void operator()(void* memory) const { operator delete (memory, std::align_val_t{kAlignment}); }
};

// Values of T aligned to a cache line. allocate_aligned() leaves them uninitialised.
template <class T>
using AlignedArray = std::unique_ptr<T[], AlignedFree>;

template <class T>
AlignedArray<T> allocate_aligned(size_t count) {
  return AlignedArray<T>(static_cast<T*>(operator new (count * sizeof(T), std::align_val_t{kAlignment})));
}

// The smallest multiple of `unit` that is ≥ `value`.
template <class Integer>
constexpr Integer round_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit * unit;
}

template <class Integer>
constexpr Integer divide_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit;
}

}  // namespace heed
