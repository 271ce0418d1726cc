// LayerNorm and RMSNorm over the last dimension, with an optional residual sum before it. For each row:
//     s = x + residual
//     y = (s - mean) · rstd · gamma + beta      LayerNorm: rstd = 1 / √(Σ (s - mean)² / C + eps)
//     y = s · rstd · gamma + beta               RMSNorm:   rstd = 1 / √(Σ s² / C + eps)
//
// Letters: N rows, C width. Every row goes through memory once; a row of y, and of d_x, has the bits it has alone. The
// mean is computed from differences to the first element and the variance from differences to the mean, so a large mean
// costs no accuracy, and a constant row gives exactly beta.
#pragma once

#include <optional>

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

enum class NormKind { layer, rms };

struct NormInputs {
  View<const float, 2> x{};         // [N, C]
  View<const float, 2> residual{};  // [N, C]; null: none
  View<const float, 1> gamma{};     // [C]; null: 1
  View<const float, 1> beta{};      // [C]; null: 0
};

struct NormOutputs {
  View<float, 2> y{};  // [N, C]; may be x or the residual itself
  View<float, 2>
      sum{};  // [N, C]: receives s where there is a residual; null: not kept. May be x or the residual itself
  View<float, 1> mean{};  // [N]: kept for the backward of LayerNorm; null: not kept
  View<float, 1> rstd{};  // [N]: kept for backward; null: not kept
};

struct NormOptions {
  NormKind kind = NormKind::layer;
  // Unset: PyTorch's defaults, 1e-5 for LayerNorm and the epsilon of float, 2^-23, for RMSNorm.
  std::optional<float> eps{};
};

// The rows of all matrices are contiguous, as are gamma and beta.
void norm_forward(const NormInputs& inputs, const NormOutputs& outputs, const NormOptions& options = {});

// What backward needs of forward.
struct NormSaved {
  NormKind kind = NormKind::layer;
  View<const float, 2> s{};      // [N, C]: x + residual
  View<const float, 1> gamma{};  // [C]; null: 1
  View<const float, 1> mean{};   // [N]; not read for RMSNorm
  View<const float, 1> rstd{};   // [N]
};

struct NormGradients {
  InputGradient<2> x{};         // [N, C]; may be d_y, d_sum or s itself
  InputGradient<2> residual{};  // [N, C]: the same values as that of x, in other memory
  View<float, 1> gamma{};       // [C]: added to
  View<float, 1> beta{};        // [C]: added to
};

// With x̂ = (s - mean) · rstd and g = d_y ∘ gamma, all in one pass:
//     d_x (+)= d_sum + rstd · (g - Σ g / C - x̂ · Σ (g ∘ x̂) / C)      RMSNorm: mean = 0, and no Σ g / C
//     d_gamma += Σ_rows d_y ∘ x̂,   d_beta += Σ_rows d_y
// d_sum [N, C] is the gradient that arrives at `sum` from its other consumers; null: none. The sums over rows run over
// blocks of kNormBlockRows rows, each in order, added in order. The arena has 2 · C · ⌈N / kNormBlockRows⌉ floats.
void norm_backward(const NormSaved& saved, View<const float, 2> d_y, View<const float, 2> d_sum,
                   const NormGradients& gradients, Arena* arena = nullptr);

inline constexpr int64_t kNormBlockRows = 64;

}  // namespace heed
