// Exact multi-head attention: heads = softmax(mask(scale · q kᵀ)) v, forward and backward, f32.
//
// Letters: B batch, Tq and Tk query and key length, H query heads, Hkv key/value heads (H % Hkv == 0; query head h
// reads key/value head h / (H/Hkv)), Dk query/key width of a head, Dv value width of a head.
//
// Tensors are [B,T,H,D]: token before head. PyTorch's scaled_dot_product_attention has [B,H,T,D]; pass such a tensor as
// from_bhtd(view), which copies nothing. Passed as it is, it would mostly fit, with heads taken for tokens.
//
// Every tensor is a strided view whose last dimension is contiguous, so the output of one fused QKV projection is read
// in place and the heads are written side by side ("concat") by giving the right strides. For first use there is
// attention(), which takes whole tensors and returns one:
//
//     Tensor y = heed::attention(q, k, v, {.mask = Mask::causal()});
//
// Results are the same bits for any number of threads, any batch mates, padded or packed. The maths, the order of
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

// A view of a [B, H, T, D] tensor, as PyTorch's attention has it, as the view [B, T, H, D] of the same memory; and, the
// other way, [B, T, H, D] as [B, H, T, D].
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
  Mask mask{};                   // nothing hidden
  std::optional<float> scale{};  // 1/√Dk unless given
  Arena* arena = nullptr;        // where scratch memory comes from; with it, calls after the first allocate nothing
  ScoreOptions scores{};         // soft cap, ALiBi, relative table, dense bias, sinks, sigmoid, dropout
};

// What forward keeps of each row's softmax for backward and for looking inside, in base 256 (heed/simd/base256.h says
// why): with s the score of a key, capped and biased,
//     weight = 256^(s · log256 e - shift) / sum,      log-sum-exp = (shift + log256 sum) / log256 e.
// A row with no visible key has shift -∞ and sum 0.
template <class T>
struct RowStates {
  View<T, 3> shift{};  // [B, H, Tq]
  View<T, 3> sum{};    // [B, H, Tq]

  operator RowStates<const T>() const { return {shift, sum}; }
};

// heads → out [B, Tq, H, Dv]. `rows`, when given (both views), receives what backward needs. `out` must not share
// memory with k or v, which other queries still read; it may be q itself, the very same view.
void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows = {});

// The same as a value, in memory of its own: q [B, Tq, H, Dk], k [B, Tk, Hkv, Dk], v [B, Tk, Hkv, Dv] → [B, Tq, H, Dv].
// With tensors in PyTorch's order [B, H, T, D] call attention(from_bhtd(q.view<4>()), …) with views; the result is
// [B, T, H, D] all the same.
Tensor attention(const Tensor& q, const Tensor& k, const Tensor& v, const AttentionOptions& options = {});
Tensor attention(View<const float, 4> q, View<const float, 4> k, View<const float, 4> v,
                 const AttentionOptions& options = {});

// What forward produced and the gradient that arrives at it.
struct AttentionOutputs {
  View<const float, 4> out{};     // [B, Tq, H, Dv]
  RowStates<const float> rows{};  // as forward filled them
  View<const float, 4> d_out{};   // [B, Tq, H, Dv]
};

// Written or added, by the rule of heed/ops/gradient.h; d_q, d_k and d_v must be given. They must not share memory with
// what backward reads, nor with each other; side by side in the rows of one array, as a fused projection has them, is
// apart.
struct AttentionGradients {
  InputGradient<4> d_q{};   // [B, Tq, H, Dk]
  InputGradient<4> d_k{};   // [B, Tk, Hkv, Dk]
  InputGradient<4> d_v{};   // [B, Tk, Hkv, Dv]
  ScoreGradients scores{};  // those asked for
};

void attention_backward(const AttentionInputs& inputs, const AttentionOptions& options, const AttentionOutputs& outputs,
                        const AttentionGradients& gradients);

// log Σ exp(scaled score) of each row, [B, H, Tq]; -∞ where no key is visible.
void log_sum_exp(RowStates<const float> rows, View<float, 3> result);

// What a call will do.
struct AttentionPlan {
  std::string isa;              // instruction set of the kernels
  std::string mask;             // "causal & lengths"
  int64_t piece_keys = 0;       // keys a piece: the unit of the order of arithmetic
  int64_t pieces = 0;           // pieces visited, over all heads and blocks of queries
  int64_t pieces_skipped = 0;   // pieces that the mask hides from a whole block
  int64_t visible_pairs = 0;    // exact, over batch and heads
  int64_t flops_forward = 0;    // useful: 2·(Dk + Dv) a visible pair
  int64_t flops_backward = 0;   // useful: 2·(3·Dk + 2·Dv) a visible pair
  int64_t bytes = 0;            // of q, k, v and out, each once
  int64_t workspace_bytes = 0;  // scratch of a forward call with threads() threads

  std::string to_text() const;
};

AttentionPlan attention_plan(const AttentionInputs& inputs, const AttentionOptions& options);

}  // namespace heed
