// Memory between two pages that may not be touched: a read or write outside of it ends the test program.
#pragma once

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <new>

namespace heed::test {

class GuardedMemory {
 public:
  enum class Side { begin, end };  // where the bytes touch a guard page

  // `bytes` bytes, a multiple of 64, on a boundary of 64; filled with 0xff, which is NaN as f32 and as bf16.
  GuardedMemory(size_t bytes, Side side) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inside = (bytes + page - 1) / page * page;
    mapped_bytes_ = inside + 2 * page;
    void* mapped = mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    mapped_ = static_cast<std::byte*>(mapped);
    std::byte* first = mapped_ + page;
    if (mprotect(first, inside, PROT_READ | PROT_WRITE) != 0) throw std::bad_alloc();
    std::memset(first, 0xff, inside);
    data_ = side == Side::begin ? first : first + inside - bytes;
  }
  GuardedMemory(const GuardedMemory&) = delete;
  GuardedMemory& operator=(const GuardedMemory&) = delete;
  ~GuardedMemory() { munmap(mapped_, mapped_bytes_); }

  std::byte* data() const { return data_; }

 private:
  std::byte* mapped_ = nullptr;
  size_t mapped_bytes_ = 0;
  std::byte* data_ = nullptr;
};

}  // namespace heed::test
