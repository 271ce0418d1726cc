// Named tensors of an optimiser's or an average's state, as they go to files and come back: "exp_avg.NAME" is the first
// moment of parameter NAME.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/train/slab_layout.h"

namespace heed {

struct StateTensor {
  std::string name;
  std::vector<int64_t> shape;
  std::span<const float> values;  // in memory of the optimiser, or of whoever restores
};

// A slab that holds one tensor of state for each parameter.
struct StateSlab {
  const char* prefix;
  float* memory;
};

// The tensors of the slabs: views, valid as long as the slabs.
std::vector<StateTensor> state_tensors(const SlabLayout& layout, std::span<const StateSlab> slabs);

// Copies the tensors into the slabs. Unless they are exactly those of state_tensors, in any order, throws an error that
// names `function` and every tensor that is missing, unknown or misshapen; nothing is written then.
void restore_state_tensors(const char* function, const SlabLayout& layout, std::span<const StateSlab> slabs,
                           const std::vector<StateTensor>& tensors);

}  // namespace heed
