// RNN, LSTM and GRU, as torch.nn has them with batch_first: names, shapes, initial distribution and maths.
//
//     nn::LSTM lstm{{.inputs = 128, .hidden = 64, .layers = 2, .bidirectional = true}};
//     auto [output, hidden, cell] = lstm(x, {.lengths = lengths});
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "heed/autograd/parameter.h"
#include "heed/autograd/recurrent_ops.h"
#include "heed/nn/initialiser.h"
#include "heed/ops/activation.h"

namespace heed::nn {

struct RecurrentOptions {
  int64_t inputs = 0;          // must be given
  int64_t hidden = 0;          // H; must be given
  int64_t layers = 1;          // each reads the output of the one before
  bool bidirectional = false;  // D = 2 directions, whose outputs are side by side
  bool bias = true;
  float dropout = 0.0F;                        // between the layers, while the tape is training
  Activation nonlinearity = Activation::tanh;  // or relu; RNN only
};

struct RecurrentCall {
  // Of the B items, each in 1 … T: an item ends with its last token, and the other direction begins there, as with
  // PyTorch's packed sequences. Empty: all T.
  std::span<const int64_t> lengths{};
  Var hidden{};  // [layers·D, B, H]: the states before the first step; empty: zeros
  Var cell{};    // the same; LSTM only
};

struct RecurrentOutput {
  Var output;  // [B, T, D·H]: of the last layer, 0 past the length of an item
  Var hidden;  // [layers·D, B, H]: after the last step
  Var cell;    // the same; LSTM only
};

// What the three share.
struct RecurrentLayers {
  // A direction of a layer; G gates.
  struct Direction {
    Parameter weight_ih, weight_hh;  // [G·H, inputs or D·H], [G·H, H]
    Parameter bias_ih, bias_hh;      // [G·H]
  };

  RecurrentLayers(RecurrentKind which, const RecurrentOptions& given);

  RecurrentKind kind;
  RecurrentOptions options;
  std::vector<Direction> directions;  // [layers · D]

  // x [B, T, inputs].
  RecurrentOutput operator()(const Var& x, const RecurrentCall& call = {}) const;

  // weight_ih_l0, …; weight_ih_l0_reverse, …; weight_ih_l1, …
  void parts(auto&& visit) {
    for (size_t i = 0; i < directions.size(); ++i) {
      const std::string suffix = suffix_of(i);
      Direction& each = directions[i];
      visit("weight_ih" + suffix, each.weight_ih), visit("weight_hh" + suffix, each.weight_hh);
      visit("bias_ih" + suffix, each.bias_ih), visit("bias_hh" + suffix, each.bias_hh);
    }
  }
  void initialise(Initialiser& draw);

 private:
  std::string suffix_of(size_t direction) const;
};

struct RNN : RecurrentLayers {
  explicit RNN(const RecurrentOptions& given)
      : RecurrentLayers(given.nonlinearity == Activation::relu ? RecurrentKind::rnn_relu : RecurrentKind::rnn_tanh,
                        given) {}
};

struct LSTM : RecurrentLayers {
  explicit LSTM(const RecurrentOptions& given) : RecurrentLayers(RecurrentKind::lstm, given) {}
};

struct GRU : RecurrentLayers {
  explicit GRU(const RecurrentOptions& given) : RecurrentLayers(RecurrentKind::gru, given) {}
};

}  // namespace heed::nn
