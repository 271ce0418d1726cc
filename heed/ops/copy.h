// Copies between strided views: permuting, slicing and concatenating, and their gradients.
#pragma once

#include "heed/core/view.h"

namespace heed {

// to = from, or to += from if `add`; both have one shape (lead with sizes of 1 for fewer dimensions), strides of 0 in
// `from` repeat. The views must not share memory.
void copy(View<const float, 6> from, View<float, 6> to, bool add = false);

}  // namespace heed
