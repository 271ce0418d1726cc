#include "heed/ops/panels.h"

#include "heed/core/memory.h"

namespace heed {

PanelLayout panel_layout(Isa isa, int64_t columns) {
  PanelLayout layout;
  layout.columns = columns;
  layout.lanes = isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4;
  layout.wide_vectors = isa == Isa::avx512 ? 3 : 2;
  const int64_t vectors = divide_up<int64_t>(columns, layout.lanes);
  const int64_t rest = vectors % layout.wide_vectors;
  layout.wide = vectors / layout.wide_vectors;
  if (rest == 0) return layout;
  layout.narrow = 1;
  layout.narrow_vectors = static_cast<int>(rest);
  if (layout.wide_vectors == 3 && rest == 1 && layout.wide > 0) {
    --layout.wide;
    layout.narrow = 2;
    layout.narrow_vectors = 2;
  }
  return layout;
}

}  // namespace heed
