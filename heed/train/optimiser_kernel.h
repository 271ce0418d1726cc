// Shared by the optimisers, the moving average and their kernels. Internal to heed/train.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

// The numbers of a step, the same for all elements of a group.
struct SgdCoefficients {
  float gradient_scale;  // of clipping
  float weight_decay;
  float momentum;
  float gain;  // of the gradient in the momentum buffer: 1 - dampening, and 1 in the first step
  float lr;
  bool nesterov;
};

struct AdamCoefficients {
  float gradient_scale;  // of clipping
  float coupled_decay;   // Adam: added to the gradient
  float kept;            // AdamW: 1 - lr · weight_decay, the part of a weight that stays
  float first_gain;      // 1 - beta1
  float beta2;
  float second_gain;  // 1 - beta2
  float root_scale;   // 1 / √(1 - beta2^t)
  float eps;
  float step_size;  // lr / (1 - beta1^t)
  bool coupled;     // Adam instead of AdamW
};

// The part of the slabs that a call updates. Pointers are aligned to 64 bytes, count is a multiple of kSlabUnit.
struct SlabPart {
  int64_t count;
  float* values;
  float* gradients;  // cleared
  float* first;      // momentum buffer or first moment; null for SGD without momentum
  float* second;     // second moment
};

template <Isa>
void sgd_kernel(const SgdCoefficients& coefficients, const SlabPart& part);

template <Isa>
void adam_kernel(const AdamCoefficients& coefficients, const SlabPart& part);

// Σ x², in double; count is a multiple of kSlabUnit. Element i is added to chain i mod kSlabUnit, in order; then the
// second half of the chains is added to the first, until one is left. Squares of floats are exact in double, so the
// bits are the same on every instruction set. Not finite exactly if an element is not.
template <Isa>
double sum_of_squares_kernel(const float* x, int64_t count);

// average += gain · (values - average); any count and alignment.
template <Isa>
void average_kernel(int64_t count, float gain, const float* values, float* average);

}  // namespace heed
