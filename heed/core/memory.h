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

// Requests huge pages for the part of the memory that whole huge pages (2 MiB) cover. A hint only: ordinary pages are
// used if none are available.
void advise_huge_pages(void* memory, size_t bytes);

// Memory of so many bytes, which contains a whole huge page, asks for them: rows that are far apart touch a page each,
// and a step of training walks over hundreds of megabytes.
inline constexpr size_t kLargeBytes = size_t{4} << 20;

template <class T>
AlignedArray<T> allocate_aligned(size_t count) {
  const size_t bytes = count * sizeof(T);
  auto* const memory = static_cast<T*>(operator new (bytes, std::align_val_t{kAlignment}));
  if (bytes >= kLargeBytes) advise_huge_pages(memory, bytes);
  return AlignedArray<T>(memory);
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
