// MultiheadAttention, as torch.nn.MultiheadAttention with batch_first, and with grouped heads, rotary positions and
// ALiBi.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "heed/autograd/attention_ops.h"
#include "heed/autograd/parameter.h"
#include "heed/nn/linear.h"

namespace heed::nn {

struct MultiheadAttentionOptions {
  int64_t width = 0;        // C of queries and output; must be given
  int64_t heads = 0;        // must be given, and divide the width
  int64_t kv_heads = 0;     // 0: as many as heads
  int64_t key_width = 0;    // of `key` (PyTorch's kdim); 0: width
  int64_t value_width = 0;  // of `value` (vdim); 0: width
  bool bias = true;         // of the four linear maps
  bool bias_kv = false;     // a learned key and value that every query sees (add_bias_kv)
  bool zero_kv = false;     // a key and value of zeros that every query sees (add_zero_attn)
  float dropout = 0.0F;     // of the weights, while the tape is training
  RotaryOptions rotary{};   // of q and k, tokens at positions 0, 1, …; a width of 0 is none
  bool alibi = false;       // ALiBi with the paper's slopes
};

struct MultiheadAttentionCall {
  Mask mask{};
  View<const float, 4> bias{};  // [B or 1, H or 1, Tq, Tk], added to the scores (PyTorch's float attn_mask); null: none
  Var residual{};               // added to the result; empty: none
};

struct MultiheadAttention {
  explicit MultiheadAttention(const MultiheadAttentionOptions& given);

  Parameter in_proj_weight;                               // rows of W_Q, W_K, W_V, where all take the same width
  Parameter q_proj_weight, k_proj_weight, v_proj_weight;  // otherwise
  Parameter in_proj_bias;
  Parameter bias_k, bias_v;  // [1, 1, width]
  Linear out_proj;
  MultiheadAttentionOptions options;

  // query [B, Tq, C], key [B, Tk, Ck], value [B, Tk, Cv] → [B, Tq, C].
  Var operator()(const Var& query, const Var& key, const Var& value, const MultiheadAttentionCall& call = {}) const;
  // Self-attention.
  Var operator()(const Var& x, const MultiheadAttentionCall& call = {}) const { return (*this)(x, x, x, call); }

  void parts(auto&& visit) {
    visit("in_proj_weight", in_proj_weight), visit("q_proj_weight", q_proj_weight);
    visit("k_proj_weight", k_proj_weight), visit("v_proj_weight", v_proj_weight);
    visit("in_proj_bias", in_proj_bias), visit("bias_k", bias_k), visit("bias_v", bias_v);
    visit("out_proj", out_proj);
  }
  void initialise(Initialiser& draw);

 private:
  MultiHeadVars vars(Tape& tape) const;
  AttentionOptions attention_options(Tape& tape) const;
  Var with_appended_keys(const Var& query, const Var& key, const Var& value, const MultiheadAttentionCall& call) const;

  std::shared_ptr<const RotaryTable> rotary_;
  std::vector<float> alibi_slopes_;
};

}  // namespace heed::nn
