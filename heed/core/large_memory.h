// Large allocations: zeroed pages straight from the operating system, with huge pages requested.
#pragma once

#include <cstddef>
#include <memory>

namespace heed {

class LargeFree {
 public:
  LargeFree() = default;
  explicit LargeFree(size_t bytes) : bytes_(bytes) {}
  void operator()(std::byte* memory) const;

 private:
  size_t bytes_ = 0;
};
using LargeMemory = std::unique_ptr<std::byte, LargeFree>;

// At least `bytes` zeroed bytes, aligned to 2 MiB. Throws std::bad_alloc when out of memory.
LargeMemory allocate_large(size_t bytes);

}  // namespace heed
