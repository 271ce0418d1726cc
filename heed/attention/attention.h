// Exact multi-head attention: heads = softmax(mask(scale · q kᵀ)) v, forward and backward, f32.
//
// Letters: B batch, Tq and Tk query and key length, H query heads, Hkv key/value heads (H % Hkv == 0; query head h
// reads key/value head h / (H/Hkv)), Dk query/key width of a head, Dv value width of a head.
//
// Every tensor is a strided view whose last dimension is contiguous, so the output of one fused QKV projection is read
// in place and the heads are written side by side ("concat") by giving the right strides. Any layout is a permutation:
// a [B,H,T,D] array is passed as view.permuted({0, 2, 1, 3}).
//
// Results are the same bits for any number of threads, any batch mates, padded or packed. The maths, the order of
// arithmetic and the tiling are explained in heed/attention/README.md.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/attention/mask.h"
#include "heed/attention/score_options.h"
#include "heed/core/view.h"
#include "heed/core/workspace.h"

namespace heed {

struct AttentionInputs {
  View<const float, 4> q;  // [B, Tq, H, Dk]
  View<const float, 4> k;  // [B, Tk, Hkv, Dk]
  View<const float, 4> v;  // [B, Tk, Hkv, Dv]
};

struct AttentionOptions {
  Mask mask;                       // nothing hidden
  std::optional<float> scale;      // 1/√Dk unless given
  Workspace* workspace = nullptr;  // the caller's scratch memory; with it, calls after the first allocate nothing
  ScoreOptions scores{};           // soft cap, ALiBi, relative table, dense bias, sinks, sigmoid, dropout
};

// What forward keeps of each row's softmax for backward and for looking inside, in base 2: with s the scaled score,
//     weight = 2^(s · log2 e - reference) / sum,      log-sum-exp = (reference + log2 sum) / log2 e.
// A row with no visible key has reference -∞ and sum 0.
template <class T>
struct RowStates {
  View<T, 3> reference;  // [B, H, Tq]
  View<T, 3> sum;        // [B, H, Tq]

  operator RowStates<const T>() const { return {reference, sum}; }
};

// heads → out [B, Tq, H, Dv]. `rows`, when given (both views), receives what backward needs.
void attention_forward(const AttentionInputs& inputs, const AttentionOptions& options, View<float, 4> out,
                       RowStates<float> rows = {});

// What forward produced and the gradient that arrives at it.
struct AttentionOutputs {
  View<const float, 4> out;     // [B, Tq, H, Dv]
  RowStates<const float> rows;  // as forward filled them
  View<const float, 4> d_out;   // [B, Tq, H, Dv]
};

struct AttentionGradients {
  View<float, 4> d_q;       // [B, Tq, H, Dk]
  View<float, 4> d_k;       // [B, Tk, Hkv, Dk]
  View<float, 4> d_v;       // [B, Tk, Hkv, Dv]
  ScoreGradients scores{};  // those asked for
};

// Writes (not adds) the gradients of q, k and v, and those of the score options that are asked for.
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
