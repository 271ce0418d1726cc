// Aligned memory: the buffer behind Tensor and Arena.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

namespace heed {

// A cache line, and the widest vector register.
inline constexpr size_t kAlignment = 64;

struct AlignedFree {
  void operator()(void* memory) const { operator delete (memory, std::align_val_t{kAlignment}); }
};

// `count` values of T on a cache-line boundary, not initialised.
template <class T>
using AlignedArray = std::unique_ptr<T[], AlignedFree>;

template <class T>
AlignedArray<T> allocate_aligned(size_t count) {
  return AlignedArray<T>(static_cast<T*>(operator new (count * sizeof(T), std::align_val_t{kAlignment})));
}

// The least multiple of `unit` that is not below `value`.
template <class Integer>
constexpr Integer round_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit * unit;
}

template <class Integer>
constexpr Integer divide_up(Integer value, Integer unit) {
  return (value + unit - 1) / unit;
}

}  // namespace heed
