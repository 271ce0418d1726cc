// Encoder, decoder and both together, as torch.nn has them with batch_first: names, shapes, initial distributions and
// maths. Residuals are added by the linear maps before them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "heed/nn/linear.h"
#include "heed/nn/multihead_attention.h"
#include "heed/nn/norm.h"

namespace heed::nn {

struct TransformerOptions {
  int64_t width = 0;            // must be given
  int64_t heads = 0;            // must be given
  int64_t feed_forward = 2048;  // width between the two linear maps
  int64_t layers = 6;           // of an encoder or a decoder
  int64_t decoder_layers = 6;   // of Transformer, whose encoder has `layers`
  float dropout = 0.1F;         // after attention, in it, and in the feed-forward block, while the tape is training
  Activation activation = Activation::relu;
  float eps = 1e-5F;        // of the norms
  bool norm_first = false;  // pre-norm: x + f(norm(x)); otherwise norm(x + f(x))
  bool bias = true;         // of linear maps and norms
  bool final_norm = false;  // after the last layer of an encoder or decoder; Transformer has both
  int64_t kv_heads = 0;     // of self-attention; 0: as many as heads
  RotaryOptions rotary{};   // of self-attention; a width of 0 is none
  bool alibi = false;       // of self-attention
};

// Linear, activation, dropout, linear, dropout: x + the result, or only the result.
struct TransformerEncoderLayer {
  explicit TransformerEncoderLayer(const TransformerOptions& options);

  MultiheadAttention self_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2;
  TransformerOptions options;

  // x [B, T, C] → [B, T, C].
  Var operator()(const Var& x, const Mask& mask = {}) const;

  void parts(auto&& visit) {
    visit("self_attn", self_attn), visit("linear1", linear1), visit("linear2", linear2);
    visit("norm1", norm1), visit("norm2", norm2);
  }
};

struct TransformerDecoderLayer {
  explicit TransformerDecoderLayer(const TransformerOptions& options);

  MultiheadAttention self_attn, multihead_attn;
  Linear linear1, linear2;
  LayerNorm norm1, norm2, norm3;
  TransformerOptions options;

  // x [B, T, C], memory [B, S, C] → [B, T, C].
  Var operator()(const Var& x, const Var& memory, const Mask& mask = {}, const Mask& memory_mask = {}) const;

  void parts(auto&& visit) {
    visit("self_attn", self_attn), visit("multihead_attn", multihead_attn);
    visit("linear1", linear1), visit("linear2", linear2);
    visit("norm1", norm1), visit("norm2", norm2), visit("norm3", norm3);
  }
};

struct TransformerEncoder {
  explicit TransformerEncoder(const TransformerOptions& options);

  std::vector<TransformerEncoderLayer> layers;
  std::optional<LayerNorm> norm;

  Var operator()(Var x, const Mask& mask = {}) const;

  void parts(auto&& visit) { visit("layers", layers), visit("norm", norm); }
};

struct TransformerDecoder {
  explicit TransformerDecoder(const TransformerOptions& options);

  std::vector<TransformerDecoderLayer> layers;
  std::optional<LayerNorm> norm;

  Var operator()(Var x, const Var& memory, const Mask& mask = {}, const Mask& memory_mask = {}) const;

  void parts(auto&& visit) { visit("layers", layers), visit("norm", norm); }
};

struct TransformerMasks {
  Mask source{}, target{}, memory{};
};

// Both, with final norms. All matrices start by Glorot and Bengio's uniform distribution, as in PyTorch.
struct Transformer {
  explicit Transformer(const TransformerOptions& options);

  TransformerEncoder encoder;
  TransformerDecoder decoder;

  // source [B, S, C], target [B, T, C] → [B, T, C]. PyTorch's default is no mask at all: give target a causal one.
  Var operator()(const Var& source, const Var& target, const TransformerMasks& masks = {}) const;

  void parts(auto&& visit) { visit("encoder", encoder), visit("decoder", decoder); }
  void initialise(Initialiser& draw);
};

}  // namespace heed::nn
