// Recurrent layers over sequences, forward and backward, with PyTorch's maths, gate order and parameter layout. With
// a = W_ih x + b_ih + W_hh h + b_hh:
//     RNN    h' = tanh(a) or relu(a)
//     LSTM   i, f, o = sigmoid(a_i, a_f, a_o),  g = tanh(a_g),  c' = f ∘ c + i ∘ g,  h' = o ∘ tanh(c')
//     GRU    r, z = sigmoid(a_r, a_z),  n = tanh(W_in x + b_in + r ∘ (W_hn h + b_hn)),  h' = n + z ∘ (h - n)
//
// Order of arithmetic: W_ih x + b is matmul's (heed/ops/matmul.h), over all steps at once. W_hh h is one chain of fused
// multiply-adds over h for each gate, as is d_gates W_hh in backward. An item has the bits it has alone, whatever the
// lengths of the others. Sums over tokens (gradients of parameters) run item by item, each from its first token to its
// last, as matmul and broadcast_sum do.
#pragma once

#include <cstdint>
#include <span>

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"

namespace heed {

enum class RecurrentKind { rnn_tanh, rnn_relu, lstm, gru };

// G: RNN has one, LSTM i, f, g, o, GRU r, z, n.
constexpr int64_t recurrent_gates(RecurrentKind kind) {
  return kind == RecurrentKind::lstm ? 4 : kind == RecurrentKind::gru ? 3 : 1;
}

// One layer, which runs over the tokens from the first to the last, and, with a second direction, also backwards.
struct RecurrentInputs {
  RecurrentKind kind = RecurrentKind::rnn_tanh;
  View<const float, 3> x;              // [B, T, I]; rows are contiguous
  std::span<const int64_t> lengths{};  // of the B items, each in 1 … T; empty: all T
};

// T is const float for values, float for gradients.
template <class T>
struct RecurrentParameters {
  View<T, 2> weight_ih;  // [G·H, I]
  View<T, 2> weight_hh;  // [G·H, H]
  View<T, 1> bias_ih{};  // [G·H]; null: none
  View<T, 1> bias_hh{};  // [G·H]; null: none
};

// The state of every item, before its first step or after its last.
template <class T>
struct RecurrentStates {
  View<T, 2> hidden{};  // [B, H]
  View<T, 2> cell{};    // [B, H]; LSTM only
};

struct RecurrentDirection {
  RecurrentParameters<const float> parameters;
  RecurrentStates<const float> first{};  // null: zeros
  View<float, 3> y;                      // [B, T, H]: h after each token; 0 past the length of an item
  RecurrentStates<float> last{};         // null: not wanted
};

// What backward needs of forward, in memory from an arena, which must last until then. N is the number of tokens of all
// items: a row of an item follows the one before, without those past its length.
struct RecurrentSaved {
  // keep = false: there will be no backward, and nothing is written for it.
  explicit RecurrentSaved(Arena& memory_of_views, bool keep_for_backward = true)
      : memory(&memory_of_views), keep(keep_for_backward) {}

  Arena* memory;
  bool keep;
  View<const float, 2> x;   // [N, I]: x itself, or a copy without padding
  View<float, 2> gates[2];  // [N, G·H]; GRU: [N, 4H], with W_hn h + b_hn after the gates
  View<float, 2> cells[2];  // [N, H]: c after each token; LSTM only
};

// directions[0] runs forwards; directions[1], if there is one, begins with each item's last token. The parts of the
// batch and the directions run on different threads.
void recurrent_forward(const RecurrentInputs& inputs, std::span<const RecurrentDirection> directions,
                       RecurrentSaved& saved, Arena* arena = nullptr);

// Of a direction: gradients that arrive (null: 0), and those to compute.
struct RecurrentGradients {
  View<const float, 3> d_y{};               // [B, T, H]; what is past the length of an item is not read
  RecurrentStates<const float> d_last{};    // [B, H]
  InputGradient<2> d_first_hidden{};        // [B, H]
  InputGradient<2> d_first_cell{};          // [B, H]; LSTM only
  RecurrentParameters<float> parameters{};  // added to
};

// After recurrent_forward with the same inputs and directions, whose y is read. Once: the gates are overwritten with
// the gradients of their pre-activations. d_x is 0 past the length of an item.
void recurrent_backward(const RecurrentInputs& inputs, std::span<const RecurrentDirection> directions,
                        const RecurrentSaved& saved, std::span<const RecurrentGradients> gradients,
                        const InputGradient<3>& d_x, Arena* arena = nullptr);

}  // namespace heed
