// Workspace: scratch memory that a caller keeps across calls, so that calls after the first allocate nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "heed/core/error.h"
#include "heed/core/memory.h"

namespace heed {

// Grows when a call needs more than it holds and keeps what it has. One workspace serves one call at a time.
class Workspace {
 public:
  Workspace() = default;

  // Memory of the caller's, on a boundary of 64 bytes: it does not grow, and a call that needs more is refused.
  Workspace(float* memory, size_t count) : given_(memory), capacity_(count) {
    check(memory != nullptr && reinterpret_cast<uintptr_t>(memory) % kAlignment == 0, "Workspace",
          "memory must not be null and must lie on a boundary of ", kAlignment, " bytes");
  }

  // At least `count` floats on a cache-line boundary, contents unspecified; valid until the next call.
  float* floats(size_t count) {
    if (given_ != nullptr) {
      check(count <= capacity_, "Workspace", "the call needs ", count, " floats, but the caller's memory has ",
            capacity_);
      return given_;
    }
    if (count > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_ = allocate_aligned<float>(count);
      capacity_ = count;
    }
    return memory_.get();
  }

  size_t capacity_bytes() const { return capacity_ * sizeof(float); }

 private:
  AlignedArray<float> memory_;
  float* given_ = nullptr;
  size_t capacity_ = 0;
};

}  // namespace heed
