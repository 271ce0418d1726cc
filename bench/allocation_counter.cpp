#include "bench/allocation_counter.h"

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <new>

namespace {

std::atomic<int64_t> allocations{0};

constexpr size_t kPlain = alignof(std::max_align_t);

// Null when out of memory.
void* counted_or_null(size_t bytes, size_t alignment) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  // aligned_alloc wants a multiple of the alignment.
  const size_t rounded = (bytes + alignment - 1) / alignment * alignment;
  if (rounded < bytes) return nullptr;
  return std::aligned_alloc(alignment, rounded == 0 ? alignment : rounded);
}

void* counted(size_t bytes, size_t alignment) {
  void* memory = counted_or_null(bytes, alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return counted(bytes, kPlain); }
void* operator new[](size_t bytes) { return counted(bytes, kPlain); }
void* operator new(size_t bytes, std::align_val_t alignment) { return counted(bytes, static_cast<size_t>(alignment)); }
void* operator new[](size_t bytes, std::align_val_t alignment) {
  return counted(bytes, static_cast<size_t>(alignment));
}
// Those that do not throw too: what they give comes back by the same operator delete.
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes, kPlain); }
void* operator new[](size_t bytes, const std::nothrow_t&) noexcept { return counted_or_null(bytes, kPlain); }
void* operator new(size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, static_cast<size_t>(alignment));
}
void* operator new[](size_t bytes, std::align_val_t alignment, const std::nothrow_t&) noexcept {
  return counted_or_null(bytes, static_cast<size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace heed::bench {

int64_t allocation_count() { return allocations.load(std::memory_order_relaxed); }

}  // namespace heed::bench
