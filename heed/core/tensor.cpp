#include "heed/core/tensor.h"

#include "heed/core/extent.h"
#include "heed/core/memory.h"

namespace heed {
namespace {

// Not initialised.
template <class T>
AlignedArray<T> allocate(int64_t count) {
  return allocate_aligned<T>(static_cast<size_t>(count));
}

}  // namespace

template <class T>
TensorOf<T>::TensorOf(std::vector<int64_t> shape) : shape_(std::move(shape)) {
  check_sizes("Tensor", "the tensor", shape_);
  const int64_t count = element_count(shape_);
  data_ = allocate<T>(count);
  std::fill_n(data_.get(), count, T{});
}

template <class T>
TensorOf<T>::TensorOf(const TensorOf& other) : shape_(other.shape_) {
  if (!other.data_) return;
  data_ = allocate<T>(other.count());
  std::copy_n(other.data_.get(), other.count(), data_.get());
}

template class TensorOf<float>;
template class TensorOf<int32_t>;
template class TensorOf<int64_t>;
template class TensorOf<bool>;

}  // namespace heed
