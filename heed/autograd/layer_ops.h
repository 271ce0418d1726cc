// The ops between the products of a layer, on a tape: embeddings, norms, dropout, activations and gated units. Each is
// one pass over memory, forward and backward (heed/ops).
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "heed/autograd/var.h"
#include "heed/core/tensor.h"
#include "heed/ops/activation.h"

namespace heed {

struct EmbeddingOpOptions {
  Var positions{};                       // [T or more, C]: row t is added to token t of every item; empty: none
  float scale = 1.0F;                    // of the table's rows
  std::optional<int64_t> padding_idx{};  // the row of the table that receives no gradient
};

// ids [..., T], each in 0 … V-1, table [V, C] → [..., T, C]. The ids are copied where backward needs them.
Var embedding(std::span<const int64_t> ids, const Dims& ids_shape, const Var& table,
              const EmbeddingOpOptions& options = {});
Var embedding(const TensorOf<int64_t>& ids, const Var& table, const EmbeddingOpOptions& options = {});

// Over the last dimension of x [..., C]; gamma and beta [C], or empty. eps unset: PyTorch's defaults (heed/ops/norm.h).
Var layer_norm(const Var& x, const Var& gamma = {}, const Var& beta = {}, std::optional<float> eps = {});
Var rms_norm(const Var& x, const Var& gamma = {}, std::optional<float> eps = {});

// sum = x + residual and y = the norm of it: the residual stream and what the next layer reads, in one pass.
struct NormedSum {
  Var sum;
  Var y;
};
NormedSum add_layer_norm(const Var& x, const Var& residual, const Var& gamma = {}, const Var& beta = {},
                         std::optional<float> eps = {});
NormedSum add_rms_norm(const Var& x, const Var& residual, const Var& gamma = {}, std::optional<float> eps = {});

// x ∘ mask / (1 - p) + residual (of the shape of x, or empty). The mask is drawn from the tape's key. While the tape is
// not training, x itself, plus the residual.
Var dropout(const Var& x, float p, const Var& residual = {});

Var activate(const Var& x, Activation activation);
Var relu(const Var& x);
Var gelu(const Var& x);
Var gelu_tanh(const Var& x);
Var silu(const Var& x);
Var tanh(const Var& x);
Var sigmoid(const Var& x);

// x [..., 2C] → act(first half) ∘ second half [..., C]; silu: SwiGLU, gelu: GEGLU. PyTorch's glu has the gate in the
// second half, and it is sigmoid.
Var glu(const Var& x, Activation activation);
// act(gate) ∘ x, of one shape.
Var glu(const Var& gate, const Var& x, Activation activation);

}  // namespace heed
