// A recurrent layer on a tape, in one direction or both (heed/ops/recurrent.h).
#pragma once

#include <cstdint>
#include <span>

#include "heed/autograd/var.h"
#include "heed/ops/recurrent.h"

namespace heed {

// The parameters of a direction; G gates of H units.
struct RecurrentVars {
  Var weight_ih, weight_hh;  // [G·H, I], [G·H, H]
  Var bias_ih, bias_hh;      // [G·H]; empty: none
};

struct RecurrentOpOptions {
  RecurrentKind kind = RecurrentKind::rnn_tanh;
  std::span<const int64_t> lengths{};  // of the B items, each in 1 … T; empty: all T. Copied.
  Var hidden{}, cell{};  // [D, B, H]: the states before the first step; empty: zeros. Only LSTM has cells.
};

struct RecurrentResult {
  Var y;       // [B, T, D·H]: h after each token, 0 past the length of an item
  Var hidden;  // [D, B, H]: after the last step
  Var cell;    // [D, B, H]: LSTM only
};

// x [B, T, I]. D = 1 direction, or 2, of which the second begins with each item's last token.
RecurrentResult recurrent(const Var& x, std::span<const RecurrentVars> directions, const RecurrentOpOptions& options);

}  // namespace heed
