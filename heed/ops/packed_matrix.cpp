#include "heed/ops/packed_matrix.h"

#include <sys/mman.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "heed/core/error.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

}  // namespace

PackedMatrix::PackedMatrix(const PackedMatrix& other) : rows_(other.rows_), panels_(other.panels_), isa_(other.isa_) {
  allocate(count());
  std::copy_n(other.data_, count(), data_);
}

PackedMatrix::PackedMatrix(PackedMatrix&& other) noexcept
    : rows_(std::exchange(other.rows_, 0)),
      panels_(std::exchange(other.panels_, {})),
      isa_(other.isa_),
      memory_(std::move(other.memory_)),
      data_(std::exchange(other.data_, nullptr)),
      capacity_(std::exchange(other.capacity_, 0)) {}

PackedMatrix& PackedMatrix::operator=(PackedMatrix other) noexcept {
  std::swap(rows_, other.rows_);
  std::swap(panels_, other.panels_);
  std::swap(isa_, other.isa_);
  std::swap(memory_, other.memory_);
  std::swap(data_, other.data_);
  std::swap(capacity_, other.capacity_);
  return *this;
}

// Large matrices start on a huge-page boundary and ask for huge pages: a weight is read from end to end for each token,
// and small pages would cost a miss of the address cache every 4 KiB.
void PackedMatrix::allocate(size_t count) {
  if (count <= capacity_) return;
  memory_.reset();
  data_ = nullptr;
  capacity_ = 0;
  size_t bytes = count * sizeof(float);
  if (bytes < kHugePage) {
    memory_ = allocate_aligned<float>(count);
    data_ = memory_.get();
  } else {
    const size_t huge_bytes = round_up(bytes, kHugePage);
    size_t space = huge_bytes + kHugePage;
    memory_ = allocate_aligned<float>(space / sizeof(float));
    void* start = memory_.get();
    std::align(kHugePage, huge_bytes, start, space);
    madvise(start, huge_bytes, MADV_HUGEPAGE);  // a wish: refusal changes nothing but speed
    data_ = static_cast<float*>(start);
  }
  capacity_ = count;
}

void PackedMatrix::assign(View<const float, 2> matrix) {
  const int64_t k = matrix.size(0);
  const int64_t n = matrix.size(1);
  check(k >= 0 && n >= 0, "PackedMatrix", "the matrix has shape ", matrix.shape(), "; sizes are not negative");
  check(matrix.data() || k * n == 0, "PackedMatrix", "the matrix of shape ", matrix.shape(), " is null");
  const Isa target = heed::isa();
  const PanelLayout layout = panel_layout(target, n);
  allocate(static_cast<size_t>(k * layout.padded_columns()));
  rows_ = k;
  panels_ = layout;
  isa_ = target;
  parallel_for(layout.count(), [&](int64_t panel, int) {
    float* to = data_ + k * layout[panel].column;
    dispatch([&]<Isa isa>() { pack_panel_kernel<isa>({matrix, 0, k}, layout, panel, to); });
  });
}

}  // namespace heed
