// Exact multi-head attention: heads = softmax(mask(scale · q kᵀ)) v, forward and backward, f32.
//
// Letters: B batch, Tq and Tk query and key length, H query heads, Hkv key/value heads (H % Hkv == 0; query head h
// reads key/value head h / (H/Hkv)), Dk query/key width of a head, Dv value width of a head.
//
// Tensors are [B,T,H,D]: token before head. PyTorch's scaled_dot_product_attention has [B,H,T,D]; pass such a tensor as
// from_bhtd(view), which copies nothing. Passed directly, it would often be accepted, with heads taken for tokens.
//
// Every tensor is a strided view whose last dimension is contiguous, so the output of a fused QKV projection can be
// read in place, and the heads can be written side by side ("concat") by choosing the strides. The simplest entry point
// is attention(), which takes whole tensors and returns one:
//
//     Tensor y = heed::attention(q, k, v, {.mask = Mask::causal()});
//
// Results have the same bits for any number of threads and any batch mates, padded or packed. The maths, the order of
// arithmetic and the tiling are explained in heed/attention/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/attention/mask.h"
#include "heed/attention/score_options.h"
#include "heed/core/arena.h"
#include "heed/core/tensor.h"
#include "heed/core/view.h"

namespace heed {

// Views a [B, H, T, D] tensor (PyTorch's layout) as [B, T, H, D] without a copy. It is its own inverse: [B, T, H, D]
// becomes [B, H, T, D].
template <class T>
View<T, 4> from_bhtd(const View<T, 4>& view) {
  return view.permuted({0, 2, 1, 3});
}

struct AttentionInputs {
  View<const float, 4> q{};  // [B, Tq, H, Dk]
  View<const float, 4> k{};  // [B, Tk, Hkv, Dk]
  View<const float, 4> v{};  // [B, Tk, Hkv, Dv]
};

struct AttentionOptions {
  Mask mask{};                   // default: nothing hidden
  std::optional<float> scale{};  // default 1/√Dk
  Arena* arena = nullptr;        // for scratch; with it, calls after the first allocate nothing
  ScoreOptions scores{};         // soft cap, ALiBi, relative table, dense bias, sinks, sigmoid, dropout
};

// Each row's softmax state, kept by forward for backward and insight, in base 256 (heed/simd/base256.h says why). With
// s the score of a key, capped and biased,
//     weight = 256^(s · log256 e - shift) / sum,      log-sum-exp = (shift + log256 sum) / log256 e.
// A row without a visible key has shift -∞ and sum 0. Every sigmoid row has shift 0 and sum 1, and its states need not
// be given.
template <class T>
struct RowStates {
  View<T, 3> shift{};  // [B, H, Tq]
  View<T, 3> sum{};    // [B, H, Tq]

  operator RowStates<const T>() const { return {shift, sum}; }
};

// heads → out [B, Tq, H, Dv]. `rows`, if given (both views), receives the row states that backward needs. `out` must
// not share memory with k or v, which other queries still read; it may be exactly the view q (in place).
void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows = {});

// The same, returning a new tensor: q [B, Tq, H, Dk], k [B, Tk, Hkv, Dk], v [B, Tk, Hkv, Dv] → [B, Tq, H, Dv]. For
// tensors in PyTorch's order [B, H, T, D], call attention(from_bhtd(q.view<4>()), …) with views; the result is still
// [B, T, H, D].
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
Tensor attention(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                 const AttentionOptions& options = {});

// The results of forward and the incoming gradient.
struct AttentionOutputs {
  View<const float, 4> out{};     // [B, Tq, H, Dv]
  RowStates<const float> rows{};  // as forward filled them
  View<const float, 4> d_out{};   // [B, Tq, H, Dv]
};

// Overwritten or added to, as heed/ops/gradient.h says; d_q, d_k and d_v must be given. They must not share memory with
// what backward reads, nor with each other. Side by side in the rows of one array, as in a fused projection, is fine.
struct AttentionGradients {
  InputGradient<4> d_q{};   // [B, Tq, H, Dk]
  InputGradient<4> d_k{};   // [B, Tk, Hkv, Dk]
  InputGradient<4> d_v{};   // [B, Tk, Hkv, Dv]
  ScoreGradients scores{};  // null views are not computed
};

void attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                        const AttentionGradients& gradients);

// log Σ exp(scaled score) of each row, [B, H, Tq]; -∞ if no key is visible.
void log_sum_exp(RowStates<const float> rows, View<float, 3> result);

// What a call will do.
struct AttentionPlan {
  std::string isa;              // instruction set of the kernels
  std::string mask;             // "causal & lengths"
  int64_t piece_keys = 0;       // keys per piece: the unit of the order of arithmetic
  int64_t pieces = 0;           // pieces visited, over all heads and blocks of queries
  int64_t pieces_skipped = 0;   // pieces that the mask hides from a whole block
  int64_t visible_pairs = 0;    // exact, over batch and heads
  int64_t flops_forward = 0;    // useful: 2·(Dk + Dv) per visible pair
  int64_t flops_backward = 0;   // useful: 2·(3·Dk + 2·Dv) per visible pair
  int64_t bytes = 0;            // of q, k, v and out, each once
  int64_t workspace_bytes = 0;  // scratch of a forward call with threads() threads

  std::string to_text() const;
};

AttentionPlan attention_plan(const AttentionInputs& inputs, const AttentionOptions& options);

}  // namespace heed
