#include "heed/core/large_memory.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

#include "heed/core/memory.h"

namespace heed {

constexpr size_t kHugePage = size_t{2} << 20;

void LargeFree::operator()(std::byte* memory) const { munmap(memory, bytes_); }

void advise_huge_pages(void* memory, size_t bytes) {
  const auto start = reinterpret_cast<uintptr_t>(memory);
  const uintptr_t first = round_up<uintptr_t>(start, kHugePage);
  const uintptr_t end = (start + bytes) / kHugePage * kHugePage;
  if (first < end) madvise(static_cast<std::byte*>(memory) + (first - start), end - first, MADV_HUGEPAGE);
}

LargeMemory allocate_large(size_t bytes) {
  const size_t size = round_up(bytes + (bytes == 0 ? 1 : 0), kHugePage);
  if (size < bytes || size + kHugePage < size) throw std::bad_alloc();
  // One extra huge page, so that the mapping contains an aligned start; the parts before and after are unmapped.
  void* mapped = mmap(nullptr, size + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* const start = static_cast<std::byte*>(mapped);
  const size_t before = (kHugePage - reinterpret_cast<uintptr_t>(start) % kHugePage) % kHugePage;
  if (before > 0) munmap(start, before);
  if (before < kHugePage) munmap(start + before + size, kHugePage - before);
  advise_huge_pages(start + before, size);
  return LargeMemory(start + before, LargeFree(size));
}

}  // namespace heed
