#include "heed/core/tensor.h"

#include <limits>

#include "heed/core/large_memory.h"

namespace heed {
namespace {

// The number of elements, refusing negative sizes and counts whose bytes do not fit in memory's address range.
int64_t checked_count(const std::vector<int64_t>& shape) {
  constexpr int64_t kMost = std::numeric_limits<int64_t>::max() / static_cast<int64_t>(sizeof(float));
  int64_t count = 1;
  for (const int64_t size : shape) {
    check(size >= 0, "Tensor", "negative size in shape ", shape);
    check(size == 0 || count <= kMost / size, "Tensor", "shape ", shape, " has too many elements");
    count *= size;
  }
  return count;
}

// Not initialised. Rows that are far apart cost a page each: large tensors ask for huge ones.
AlignedArray<float> allocate(int64_t count) {
  AlignedArray<float> data = allocate_aligned<float>(static_cast<size_t>(count));
  ask_for_huge_pages(data.get(), static_cast<size_t>(count) * sizeof(float));
  return data;
}

}  // namespace

Tensor::Tensor(std::vector<int64_t> shape) : shape_(std::move(shape)) {
  const int64_t count = checked_count(shape_);
  data_ = allocate(count);
  std::fill_n(data_.get(), count, 0.0F);
}

Tensor::Tensor(const Tensor& other) : shape_(other.shape_) {
  if (!other.data_) return;
  data_ = allocate(other.count());
  std::copy_n(other.data_.get(), other.count(), data_.get());
}

}  // namespace heed
