#include "heed/ops/panels.h"

#include "heed/core/memory.h"

namespace heed {

PanelLayout panel_layout(Isa isa, int64_t columns) {
  PanelLayout layout;
  layout.columns = columns;
  layout.lanes = panel_lanes(isa);
  const int64_t vectors = divide_up<int64_t>(columns, layout.lanes);
  const int most = most_panel_vectors(isa);
  const int64_t rest = vectors % most;
  layout.wide_vectors = most;
  layout.wide = vectors / most;
  layout.narrow_vectors = static_cast<int>(rest);
  layout.narrow = rest == 0 ? 0 : 1;
  if (most == 4 && vectors == 5) {
    layout.wide_vectors = 3;
    layout.narrow_vectors = 2;
  } else if (most == 4 && vectors > 4 && (rest == 1 || rest == 2)) {
    layout.narrow = 4 - rest;
    layout.narrow_vectors = 3;
    layout.wide -= layout.narrow - 1;
  }
  return layout;
}

}  // namespace heed
