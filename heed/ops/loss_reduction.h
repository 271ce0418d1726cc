// How the losses of rows, or of elements, become one.
#pragma once

namespace heed {

enum class LossReduction {
  mean,  // over what counts; 0 if nothing does
  sum,
  none,  // each loss by itself
};

}  // namespace heed
