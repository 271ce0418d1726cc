// A strided row as contiguous pieces. Internal to heed/ops.
#pragma once

#include <algorithm>
#include <cstdint>

namespace heed {

// The longest piece of a StagedRow.
inline constexpr int64_t kStagedElements = 256;

// Elements data[i · step]: pieces point into the row if its step is 1, else into a buffer that the next call reuses.
class StagedRow {
 public:
  StagedRow(const float* data, int64_t step) : data_(data), step_(step) {
    if (step == 0) std::fill_n(buffer_, kStagedElements, *data);
  }

  // Elements i … i + count - 1, at most kStagedElements.
  const float* elements(int64_t i, int64_t count) {
    if (step_ == 1) return data_ + i;
    if (step_ == 0) return buffer_;
    for (int64_t n = 0; n < count; ++n) buffer_[n] = data_[(i + n) * step_];
    return buffer_;
  }

 private:
  const float* data_;
  int64_t step_;
  alignas(64) float buffer_[kStagedElements];
};

}  // namespace heed
