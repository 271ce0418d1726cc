// Shared by recurrent.cpp, recurrent_backward.cpp and their kernels. Internal to heed/ops.
#pragma once

#include <span>

#include "heed/ops/panels.h"
#include "heed/ops/recurrent.h"
#include "heed/simd/isa.h"

namespace heed {

// An item of the batch in a block.
struct RecurrentItem {
  int64_t item = 0;   // of the batch
  int64_t first = 0;  // row of its first token
  int64_t steps = 0;  // its length
};

// Most items of a block: a few strips of register tiles, so that a panel of weights in L1 is used for each of them, and
// the tiles of one strip overlap with the gates of another.
inline constexpr int64_t kRecurrentRows = 36;

// A weight [depth, columns] packed into panels of two vectors.
struct RecurrentWeight {
  const float* data = nullptr;
  int64_t depth = 0;
  PanelLayout panels;
};

// One direction of a layer. Rows of all views are contiguous.
struct RecurrentPass {
  RecurrentKind kind = RecurrentKind::rnn_tanh;
  bool reverse = false;
  bool keep = true;                    // write what backward needs
  int64_t hidden = 0;                  // H
  RecurrentWeight weight;              // W_hhᵀ [H, G·H]; in backward W_hh [G·H, H]
  const float* hidden_bias = nullptr;  // b_hn [H] of GRU; null: none
  View<float, 2> gates;                // as in RecurrentSaved; before forward x W_ihᵀ + b_ih + b_hh (but for b_hn)
  View<float, 2> cells;
  RecurrentDirection direction;
  RecurrentGradients gradients;  // of backward
  View<float, 2> previous;       // [N, H]: receives h before each token, in backward; null: not wanted
};

// All steps of the items of a block, which are in the order of falling length.
template <Isa>
void recurrent_forward_kernel(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& scratch);
template <Isa>
void recurrent_backward_kernel(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& scratch);

// Row strides of scratch, in floats: whole vectors, and not a power of two, so that rows map to different cache sets.
constexpr int64_t recurrent_stride(int64_t count) { return round_up<int64_t>(count, 32) + 16; }

// Scratch of a block of `rows` items.
struct RecurrentForwardScratch {
  RecurrentForwardScratch(Arena& arena, int64_t rows, int64_t hidden, int64_t gates)
      : hidden_stride(recurrent_stride(hidden)),
        sums_stride(recurrent_stride(gates * hidden)),
        h(arena.take<float>(rows * hidden_stride)),
        c(arena.take<float>(rows * hidden_stride)),
        sums(arena.take<float>(rows * sums_stride)) {}

  int64_t hidden_stride;
  int64_t sums_stride;
  float* h;     // [rows][hidden_stride]
  float* c;     // the same; LSTM only
  float* sums;  // [rows][sums_stride]: W_hh h
};

struct RecurrentBackwardScratch {
  RecurrentBackwardScratch(Arena& arena, int64_t rows, int64_t hidden, int64_t gates)
      : hidden_stride(recurrent_stride(hidden)),
        gates_stride(recurrent_stride(gates * hidden)),
        zeros(arena.take<float>(hidden_stride)),
        carry(arena.take<float>(rows * hidden_stride)),
        product(arena.take<float>(rows * hidden_stride)),
        d_gates(arena.take<float>(rows * gates_stride)) {}

  int64_t hidden_stride;
  int64_t gates_stride;
  float* zeros;    // [H]
  float* carry;    // [rows][hidden_stride]: d_c of LSTM; z ∘ d_h of GRU
  float* product;  // the same: d_gates W_hh, or d_last before an item's last step
  float* d_gates;  // [rows][gates_stride]
};

}  // namespace heed
