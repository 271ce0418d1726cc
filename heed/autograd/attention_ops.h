// Attention on a tape: the heads alone, and the whole multi-head layer.
#pragma once

#include <memory>

#include "heed/attention/attention.h"
#include "heed/attention/multihead.h"
#include "heed/autograd/var.h"
#include "heed/ops/rotary.h"

namespace heed {

// q [B, Tq, H, Dk], k [B, Tk, Hkv, Dk], v [B, Tk, Hkv, Dv] → heads [B, Tq, H, Dv]. Views in the options (a dense bias,
// slopes, a dense mask) are constants that must stay until the tape is cleared. Dropout draws from the tape's key, and
// only while the tape is training: of the option only the probability counts.
Var attention(const Var& q, const Var& k, const Var& v, AttentionOptions options = {});

// The parameters of a multi-head layer, as torch.nn.MultiheadAttention has them. Weights are [outputs, inputs].
struct MultiHeadVars {
  Var in_weight{};                         // the rows of W_Q, W_K and W_V below each other,
  Var q_weight{}, k_weight{}, v_weight{};  // or each for itself
  Var in_bias{};                           // of q, k and v one after the other; empty: none
  Var out_weight{}, out_bias{};
};

struct MultiHeadOpOptions {
  int64_t heads = 0;                            // must be given
  int64_t kv_heads = 0;                         // 0: as many as heads
  AttentionOptions attention{};                 // as above
  std::shared_ptr<const RotaryTable> rotary{};  // null: none; tokens stand at positions 0, 1, …
  Var residual{};                               // [B, Tq, C_out]: added to y
};

// query [B, Tq, Cq], key [B, Tk, Ck], value [B, Tk, Cv] → y [B, Tq, C_out]. Where all three are one Var and the weights
// are one matrix, the projections are one product.
Var multihead(const Var& query, const Var& key, const Var& value, const MultiHeadVars& parameters,
              const MultiHeadOpOptions& options);

}  // namespace heed
