#include "heed/ops/packed_matrix.h"

#include <algorithm>
#include <utility>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
PackedMatrix::PackedMatrix(const PackedMatrix& other)
    : rows_(other.rows_), panels_(other.panels_), isa_(other.isa_), storage_(other.storage_) {
  allocate(bytes());
  std::copy_n(other.data_, bytes(), data_);
}

PackedMatrix::PackedMatrix(PackedMatrix&& other) noexcept
    : rows_(std::exchange(other.rows_, 0)),
      panels_(std::exchange(other.panels_, {})),
      isa_(other.isa_),
      storage_(other.storage_),
      small_(std::move(other.small_)),
      large_(std::move(other.large_)),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

PackedMatrix& PackedMatrix::operator=(PackedMatrix other) noexcept {
  std::swap(rows_, other.rows_);
  std::swap(panels_, other.panels_);
  std::swap(isa_, other.isa_);
  std::swap(storage_, other.storage_);
  std::swap(small_, other.small_);
  std::swap(large_, other.large_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

// Large matrices request huge pages: a weight is read sequentially for each token, and small pages would cost a TLB
// miss every 4 KiB.
void PackedMatrix::allocate(size_t bytes) {
  constexpr size_t kLarge = size_t{2} << 20;
  if (bytes <= capacity_) return;
  small_.reset();
  large_.reset();
  data_ = nullptr;
  capacity_ = 0;
  if (bytes < kLarge) {
    small_ = allocate_aligned<std::byte>(bytes);
    data_ = small_.get();
  } else {
    large_ = allocate_large(bytes);
    data_ = large_.get();
  }
  capacity_ = bytes;
}

void PackedMatrix::assign(View<const float, 2> matrix) {
  const int64_t k = matrix.size(0);
  const int64_t n = matrix.size(1);
  check_view("PackedMatrix", "the matrix", matrix);
  const Isa target = heed::isa();
  const PanelLayout layout = panel_layout(target, n);
  rows_ = 0;  // empty, should there be no memory
  panels_ = {};
  allocate(bytes_of(k, layout));
  rows_ = k;
  panels_ = layout;
  isa_ = target;
  if (matrix.count() == 0) return;
  dispatch([&]<Isa isa>() {
    parallel_for(layout.count(), [&](int64_t panel, int) {
      const int64_t column = layout[panel].column;
      if (!is_bf16()) return pack_panel_kernel<isa>({matrix, 0, k}, layout, panel, floats() + k * column);
      pack_bf16_panel_kernel<isa>(matrix, layout, panel, pairs() + divide_up<int64_t>(k, 2) * column);
    });
  });
}

}  // namespace heed
