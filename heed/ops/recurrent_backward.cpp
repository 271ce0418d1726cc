#include <algorithm>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/overlap.h"
#include "heed/ops/broadcast_sum.h"
#include "heed/ops/matmul.h"
#include "heed/ops/recurrent.h"
#include "heed/ops/recurrent_plan.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

constexpr const char* kName = "recurrent_backward";

void check_states(const char* name, const View<const float, 2>& states, const Shape<2>& expected) {
  if (states.data() != nullptr) check_rows(kName, name, states, expected);
}

void check_sequence(const char* name, const View<const float, 3>& view, const Shape<3>& expected) {
  if (view.data() == nullptr) return;
  check(view.shape() == expected, kName, name, " has shape ", view.shape(), ", expected ", expected);
  check_extent(kName, name, view);
  check(view.size(2) <= 1 || view.stride(2) == 1, kName, name, " has strides ", view.strides(),
        "; its rows must be contiguous: copy it first");
}

void check_gradients(const RecurrentInputs& inputs, const RecurrentDirection& direction,
                     const RecurrentGradients& gradients) {
  const RecurrentParameters<const float>& p = direction.parameters;
  const RecurrentParameters<float>& d_p = gradients.parameters;
  const Shape<2> states{inputs.x.size(0), p.weight_hh.size(1)};
  check_sequence("d_y", gradients.d_y, direction.y.shape());
  check_states("the gradient of the last hidden state", gradients.d_last.hidden, states);
  check_states("the gradient of the last cell state", gradients.d_last.cell, states);
  check_states("the gradient of the first hidden state", gradients.d_first_hidden.view, states);
  check_states("the gradient of the first cell state", gradients.d_first_cell.view, states);
  const bool has_cell = gradients.d_last.cell.data() != nullptr || gradients.d_first_cell.view.data() != nullptr;
  check(inputs.kind == RecurrentKind::lstm || !has_cell, kName, "the gradient of a cell state, which only LSTM has");
  check_states("the gradient of weight_ih", d_p.weight_ih, p.weight_ih.shape());
  check_states("the gradient of weight_hh", d_p.weight_hh, p.weight_hh.shape());
  for (const View<float, 1>& bias : {d_p.bias_ih, d_p.bias_hh}) {
    if (bias.data() != nullptr) check_vector(kName, "the gradient of a bias", bias, p.weight_hh.size(0));
  }
}

void check_backward(const RecurrentInputs& inputs, std::span<const RecurrentDirection> directions,
                    const RecurrentSaved& saved, std::span<const RecurrentGradients> gradients,
                    const InputGradient<3>& d_x) {
  check_recurrent(kName, inputs, directions);
  check(gradients.size() == directions.size(), kName, "gradients of ", gradients.size(), " directions for ",
        directions.size());
  check(saved.keep, kName, "forward kept nothing for backward: save with keep_for_backward");
  for (size_t d = 0; d < directions.size(); ++d) check_gradients(inputs, directions[d], gradients[d]);
  check_sequence("d_x", d_x.view, inputs.x.shape());
  if (d_x.view.data() != nullptr) check_apart(kName, "d_x", d_x.view, "x", inputs.x);
}

// Is it what forward left for these inputs?
struct SavedSizes {
  int64_t tokens, inputs, hidden;
};
void check_saved(const RecurrentInputs& inputs, const RecurrentSaved& saved, const SavedSizes& sizes,
                 size_t directions) {
  const int64_t kept = inputs.kind == RecurrentKind::gru ? 4 : recurrent_gates(inputs.kind);
  bool fits = saved.x.shape() == Shape<2>{sizes.tokens, sizes.inputs};
  for (size_t d = 0; d < directions; ++d) {
    fits = fits && saved.gates[d].shape() == Shape<2>{sizes.tokens, kept * sizes.hidden};
    if (inputs.kind == RecurrentKind::lstm) {
      fits = fits && saved.cells[d].shape() == Shape<2>{sizes.tokens, sizes.hidden};
    }
  }
  check(fits, kName, "what was saved is not of recurrent_forward with these inputs and directions: call it first");
}

// Adds the sums of d_gates over all tokens to the gradients of both biases.
void add_bias_gradients(const RecurrentPass& pass, Arena& arena) {
  const RecurrentParameters<float>& d_p = pass.gradients.parameters;
  if (d_p.bias_ih.data() == nullptr && d_p.bias_hh.data() == nullptr) return;
  const View<float, 2>& d_gates = pass.gates;
  const int64_t width = d_gates.size(1);
  const int64_t gates = recurrent_gates(pass.kind) * pass.hidden;
  float* const sums = arena.take<float>(width);
  broadcast_sum({View<const float, 4>(d_gates.data(), {1, 1, d_gates.size(0), width})},
                View<float, 4>(sums, {1, 1, 1, width}));
  const auto add = [&](const View<float, 1>& to, int64_t first, int64_t from, int64_t count) {
    for (int64_t j = 0; j < count; ++j) to(first + j) += sums[from + j];
  };
  const int64_t shared = pass.kind == RecurrentKind::gru ? 2 * pass.hidden : gates;
  if (d_p.bias_ih.data() != nullptr) add(d_p.bias_ih, 0, 0, gates);
  if (d_p.bias_hh.data() == nullptr) return;
  add(d_p.bias_hh, 0, 0, shared);
  add(d_p.bias_hh, shared, gates, gates - shared);
}

// d_W += d_gatesᵀ x, computed as its transpose: the narrower factor is the one that matmul copies. The terms of an
// element and their order are the same.
void add_product(const View<const float, 2>& d_gates, const View<const float, 2>& x, const View<float, 2>& d_weight,
                 Arena& arena) {
  MatmulOptions options;
  options.accumulate = true;
  options.arena = &arena;
  if (x.size(1) < d_gates.size(1)) return matmul(x.transposed(), d_gates, d_weight.transposed(), options);
  matmul(d_gates.transposed(), x, d_weight, options);
}

// GRU's d_gates for W_hn are beside the others.
void add_weight_gradients(const RecurrentPass& pass, const View<const float, 2>& x, Arena& arena) {
  const RecurrentParameters<float>& d_p = pass.gradients.parameters;
  const int64_t gates = recurrent_gates(pass.kind) * pass.hidden;
  const View<const float, 2> d_gates = pass.gates;
  if (d_p.weight_ih.data() != nullptr) add_product(d_gates.slice(1, 0, gates), x, d_p.weight_ih, arena);
  if (d_p.weight_hh.data() == nullptr) return;
  const int64_t shared = pass.kind == RecurrentKind::gru ? 2 * pass.hidden : gates;
  add_product(d_gates.slice(1, 0, shared), pass.previous, d_p.weight_hh.slice(0, 0, shared), arena);
  if (pass.kind != RecurrentKind::gru) return;
  add_product(d_gates.slice(1, gates, pass.hidden), pass.previous, d_p.weight_hh.slice(0, shared, pass.hidden), arena);
}

// d_x (+)= the sum of d_gates W_ih over the directions.
void put_input_gradient(const RecurrentPlan& plan, std::span<const RecurrentPass> passes, const InputGradient<3>& d_x,
                        Arena& arena) {
  if (d_x.view.data() == nullptr) return;
  const int64_t width = d_x.view.size(2);
  const bool in_place =
      !plan.packed && (d_x.view.size(0) <= 1 || d_x.view.stride(0) == d_x.view.size(1) * d_x.view.stride(1));
  const View<float, 2> rows =
      in_place ? rows_in_place(d_x.view) : View<float, 2>(arena.take<float>(plan.tokens * width), {plan.tokens, width});
  MatmulOptions options;
  options.arena = &arena;
  options.accumulate = in_place && d_x.add;
  for (const RecurrentPass& pass : passes) {
    const int64_t gates = recurrent_gates(pass.kind) * pass.hidden;
    matmul(pass.gates.slice(1, 0, gates), pass.direction.parameters.weight_ih, rows, options);
    options.accumulate = true;
  }
  if (!in_place) scatter_tokens(plan, rows, d_x);
}

}  // namespace

void recurrent_backward(const RecurrentInputs& inputs, std::span<const RecurrentDirection> directions,
                        const RecurrentSaved& saved, std::span<const RecurrentGradients> gradients,
                        const InputGradient<3>& d_x, Arena* arena) {
  check_backward(inputs, directions, saved, gradients, d_x);
  const int64_t hidden = directions[0].y.size(2);
  if (inputs.x.size(0) == 0) return;
  CallArena scratch(arena);
  const RecurrentPlan plan = plan_recurrent(inputs, static_cast<int64_t>(directions.size()), *scratch);
  check_saved(inputs, saved, {plan.tokens, inputs.x.size(2), hidden}, directions.size());
  RecurrentPass passes[2];
  for (size_t d = 0; d < directions.size(); ++d) {
    RecurrentPass& pass = passes[d];
    pass.kind = inputs.kind;
    pass.reverse = d == 1;
    pass.hidden = hidden;
    pass.weight = pack_recurrent_weight(directions[d].parameters.weight_hh, *scratch);
    pass.gates = saved.gates[d];
    pass.cells = saved.cells[d];
    pass.direction = directions[d];
    pass.gradients = gradients[d];
    if (gradients[d].parameters.weight_hh.data() != nullptr) {
      pass.previous = {scratch->take<float>(plan.tokens * hidden), {plan.tokens, hidden}};
    }
  }
  const std::span<const RecurrentPass> all(passes, directions.size());
  for_each_block<RecurrentBackwardScratch>(
      plan, all, *scratch, []<Isa isa>(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& mine) {
        recurrent_backward_kernel<isa>(pass, items, mine);
      });
  for (const RecurrentPass& pass : all) {
    add_weight_gradients(pass, saved.x, *scratch);
    add_bias_gradients(pass, *scratch);
  }
  put_input_gradient(plan, all, d_x, *scratch);
}

}  // namespace heed
