// MultiHeadDecoder: a self-attention layer with its weights and its cache, for tokens that come one after the other.
//
//     MultiHeadDecoder layer(load_multihead("model.safetensors", "layers.0.attn."), {.heads = 8, .capacity = 4096});
//     Tensor y = layer.append(prompt);      // [1, T, C] → [1, T, C_out]
//     y = layer.append(token);              // [1, 1, C] → [1, 1, C_out]: it sees the prompt and itself
//
// The rows of y have the bits of one causal multihead_forward over all tokens, however they were cut into calls.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "heed/attention/decode.h"
#include "heed/attention/kv_cache.h"
#include "heed/attention/multihead.h"
#include "heed/nn/multihead_weights.h"
#include "heed/ops/rotary.h"

namespace heed {

struct MultiHeadDecoderOptions {
  int64_t heads = 0;      // must be given: the weights do not tell it
  int64_t kv_heads = 0;   // 0: as many as heads
  int64_t capacity = 0;   // tokens that a sequence may have; must be given
  int64_t sequences = 1;  // N: how many run side by side
  // Rotary positions of q and k, from 0 on; a width of 0 is none. `positions` is set to the capacity.
  RotaryOptions rotary{};
  // Scale, window and score options of every call, but no dense bias: that has the sizes of one call. Its arena
  // serves the projections too; without one the decoder has its own.
  DecodeOptions attention{};
  WeightStorage weights = WeightStorage::f32;
  KvStorage cache = KvStorage::f32;
};

class MultiHeadDecoder {
 public:
  // Copies the parameters, packed for the instruction set in use. Refuses what multihead_forward refuses.
  MultiHeadDecoder(const MultiHeadParameters<const float>& parameters, const MultiHeadDecoderOptions& options);
  MultiHeadDecoder(const MultiHeadWeights& weights, const MultiHeadDecoderOptions& options)
      : MultiHeadDecoder(weights.parameters(), options) {}

  // The next T tokens of every sequence, x [N, T, C] → y [N, T, C_out] (or [N, T, H·Dv] without W_O). A refused call
  // leaves the sequences as they were. Into a view, nothing is allocated after the first call with as many tokens, but
  // for the cache's list of pages, which grows twofold.
  Tensor append(const Tensor& x);
  void append(View<const float, 3> x, View<float, 3> y);

  // Forgets the tokens from `length` on, of every sequence.
  void truncate(int64_t length);

  // Tokens that each sequence has.
  int64_t length() const { return length_; }

 private:
  struct HeadSizes {
    int64_t heads = 0, kv_heads = 0, d_k = 0, d_v = 0;
  };
  static HeadSizes sizes_of(const MultiHeadParameters<const float>& parameters, const MultiHeadDecoderOptions& options);

  void check_call(View<const float, 3> x, View<const float, 3> y) const;
  void project_in(View<const float, 3> x);
  int64_t output_width() const;

  std::unique_ptr<Arena> arena_;  // where the options give none
  MultiHeadDecoderOptions options_;
  HeadSizes sizes_;
  PackedMultiHead weights_;
  std::optional<RotaryTable> rotary_;
  KvCache cache_;
  std::vector<int64_t> sequences_;
  int64_t length_ = 0;
  // Of the call at hand:
  Tensor q_, k_, v_, concat_;  // [N, T, (H or Hkv)·D]
  std::vector<KvChunk> chunks_;
};

}  // namespace heed
