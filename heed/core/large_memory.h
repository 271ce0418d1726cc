// Large memory: pages straight from the system, zeros, huge ones asked for.
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

// Asks for huge pages where whole ones fit into the memory. Only advice: where there are none, ordinary ones serve.
void ask_for_huge_pages(void* memory, size_t bytes);

// At least `bytes` bytes of zeros on a boundary of 2 MiB. Throws std::bad_alloc where the system has no more.
LargeMemory allocate_large(size_t bytes);

}  // namespace heed
