// ParameterSlabs: the values and gradients of parameters, gathered into two slabs that an optimiser walks in one pass.
// The parameters point to their parts from then on: a model works as before, and may be moved.
#pragma once

#include <memory>
#include <vector>

#include "heed/nn/module.h"
#include "heed/train/slab_layout.h"

namespace heed {

class ParameterSlabs {
 public:
  // Moves the parameters into new slabs; frozen ones stay where they are. Parameters that other slabs hold are taken
  // over. Tapes point to the memory of the parameters they use: gather before forward or after backward, not between.
  ParameterSlabs(const char* function, const std::vector<nn::NamedParameter>& parameters);

  const SlabLayout& layout() const { return layout_; }
  float* values() const { return values_.get(); }
  float* gradients() const { return gradients_.get(); }

  // Refuses if a parameter is no longer here, because other slabs took it over or its model is gone. Notes which are
  // frozen now.
  void check_held(const char* function);
  // Whether the parameter of an entry was frozen at the last check_held.
  bool frozen(size_t entry) const { return frozen_[entry]; }

 private:
  SlabLayout layout_;
  std::shared_ptr<float[]> values_;
  std::shared_ptr<float[]> gradients_;
  std::vector<bool> frozen_;
};

}  // namespace heed
