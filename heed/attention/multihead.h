// Multi-head attention with its projections: y = concat(heads) W_Oᵀ, forward and backward.
//
//     q = query W_Qᵀ + b_Q,  k = key W_Kᵀ + b_K,  v = value W_Vᵀ + b_V,  y = attention(q, k, v) W_Oᵀ + b_O
//
// and, where asked, rotary positions on q and k.
//
// Weights lie as PyTorch has them, [outputs, inputs]. Seven sizes are independent: the widths Cq, Ck and Cv of the
// inputs, Dk, Dv, H/Hkv, and the width C_out of the output. Self and cross attention differ in what is passed.
//
// When query, key and value are one tensor and their weights follow each other in one matrix (in_proj_weight), the
// three projections are one product, which attention reads in place. Heads are written side by side: there is no pass
// that splits, transposes or concatenates.
#pragma once

#include "heed/attention/attention.h"
#include "heed/core/tensor.h"
#include "heed/ops/gradient.h"
#include "heed/ops/packed_matrix.h"
#include "heed/ops/rotary.h"
#include "heed/trace/trace.h"

namespace heed {

struct MultiHeadInputs {
  View<const float, 3> query{};  // [B, Tq, Cq]
  View<const float, 3> key{};    // [B, Tk, Ck]
  View<const float, 3> value{};  // [B, Tk, Cv]

  static MultiHeadInputs self(View<const float, 3> x) { return {x, x, x}; }
  static MultiHeadInputs cross(View<const float, 3> x, View<const float, 3> context) { return {x, context, context}; }
};

// What errors call the parameters of a projection.
struct ProjectionNames {
  const char* weight;
  const char* bias;
};

// The members of one struct that belong to a projection.
template <class Weight, class Bias>
struct ProjectionPart {
  ProjectionPart(Weight& w, Bias& b) : weight(w), bias(b) {}
  Weight& weight;
  Bias& bias;
};

// The list of a layer's parameters, the only one: what walks over them is written for any of them. Calls
// visit(names, part of each…) for each projection, with the members of all structs given (MultiHeadParameters,
// PackedMultiHead, or another with their names) side by side.
template <class Visit, class... Of>
void visit_projections(Visit&& visit, Of&... of) {
  visit(ProjectionNames{"W_Q", "q_bias"}, ProjectionPart(of.q, of.q_bias)...);
  visit(ProjectionNames{"W_K", "k_bias"}, ProjectionPart(of.k, of.k_bias)...);
  visit(ProjectionNames{"W_V", "v_bias"}, ProjectionPart(of.v, of.v_bias)...);
  visit(ProjectionNames{"W_O", "out_bias"}, ProjectionPart(of.out, of.out_bias)...);
}

// The same one by one: visit(name, member of each…).
template <class Visit, class... Of>
void visit_parameters(Visit&& visit, Of&... of) {
  visit_projections(
      [&](const ProjectionNames& names, auto... part) {
        visit(names.weight, part.weight...);
        visit(names.bias, part.bias...);
      },
      of...);
}

// Parameters, or their gradients. A null bias is no bias; a null `out` stops at the concatenated heads.
template <class T>
struct MultiHeadParameters {
  View<T, 2> q{};    // [H·Dk, Cq]
  View<T, 2> k{};    // [Hkv·Dk, Ck]
  View<T, 2> v{};    // [Hkv·Dv, Cv]
  View<T, 2> out{};  // [C_out, H·Dv]
  View<T, 1> q_bias{}, k_bias{}, v_bias{}, out_bias{};

  operator MultiHeadParameters<const T>() const {
    MultiHeadParameters<const T> result;
    visit_parameters([](const char*, auto& to, const auto& from) { to = from; }, result, *this);
    return result;
  }
};

// The same in memory of its own, each weight packed once for many calls: for inference. It suits the instruction set in
// use when it was made.
struct PackedMultiHead {
  PackedMatrix q, k, v, out;                // [inputs, outputs]; an empty `out` stops at the concatenated heads
  Tensor q_bias, k_bias, v_bias, out_bias;  // an empty one is no bias

  PackedMultiHead() = default;
  // With weights in bf16, forward has the bits it has with f32 weights that were rounded; there is no backward then.
  // Biases stay f32.
  explicit PackedMultiHead(const MultiHeadParameters<const float>& parameters,
                           WeightStorage storage = WeightStorage::f32);
};

// Rotary positions: q and k are rotated where the projections wrote them, in a pass of its own. It costs 0.7 % of a
// layer of 512 tokens (`heed bench attention --case layer`), which is all that doing it on the way could save.
struct LayerRotary {
  const RotaryTable* table = nullptr;  // null: none
  RotaryPositions query{}, key{};      // where the tokens stand, from 0 on unless given
};

struct MultiHeadOptions {
  int64_t heads = 0;             // must be given: the weights do not tell it
  int64_t kv_heads = 0;          // 0: as many as heads
  AttentionOptions attention{};  // its arena serves the projections too
  LayerRotary rotary{};
  View<const float, 3> residual{};  // [B, Tq, C_out]: added to y on the way out; null: none. Its gradient is d_y itself
  Trace* trace = nullptr;           // records the steps, and of backward the gradients, by name; null: off
};

// What forward saves for backward and for looking inside. It can be moved. Its memory is its own and kept from call to
// call, or comes from an arena that outlives it, as that of a training step does.
class MultiHeadState {
 public:
  View<float, 3> projections[3];  // q, k and v: [B, T, H·D] each, or all side by side in the first when fused
  View<float, 3> concat;          // [B, Tq, H·Dv]: the heads side by side
  RowStates<float> rows;          // [B, H, Tq]
  AttentionInputs attention;      // q, k and v as attention sees them, in `projections`
  bool fused = false;             // query, key and value were one tensor
  bool rounded = false;           // forward's weights were bf16: no gradients

  MultiHeadState() = default;
  explicit MultiHeadState(Arena& memory) : memory_(&memory) {}
  MultiHeadState(MultiHeadState&&) = default;  // views point to memory that does not move
  MultiHeadState& operator=(MultiHeadState&&) = default;

  // Forgets what the last call saved and gives memory for the next: part i of at most kParts.
  static constexpr int kParts = 6;
  void clear();
  View<float, 3> keep(int part, const Shape<3>& shape);

 private:
  Arena* memory_ = nullptr;
  Tensor own_[kParts];
};

// y: [B, Tq, C_out], or [B, Tq, H·Dv] without W_O. Parameters packed in f32 give the same bits as plain ones. y must
// not share memory with query, key or value, which backward and a trace read after it was written.
void multihead_forward(const MultiHeadInputs& inputs, const MultiHeadParameters<const float>& parameters,
                       const MultiHeadOptions& options, MultiHeadState& state, View<float, 3> y);
void multihead_forward(const MultiHeadInputs& inputs, const PackedMultiHead& parameters,
                       const MultiHeadOptions& options, MultiHeadState& state, View<float, 3> y);

// By the rule of heed/ops/gradient.h: those of the inputs are written or added, those of the parameters always added.
// Where query, key or value are one tensor give one view for them: it receives the sum.
struct MultiHeadGradients {
  InputGradient<3> query{}, key{}, value{};
  MultiHeadParameters<float> parameters{};
  ScoreGradients scores{};  // of the score options of `attention`
};

// After multihead_forward with the same inputs, parameters (plain, or packed in f32) and options.
void multihead_backward(const MultiHeadInputs& inputs, const MultiHeadParameters<const float>& parameters,
                        const MultiHeadOptions& options, const MultiHeadState& state, View<const float, 3> d_y,
                        const MultiHeadGradients& gradients);

}  // namespace heed
