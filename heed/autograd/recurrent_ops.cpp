#include "heed/autograd/recurrent_ops.h"

#include <algorithm>
#include <array>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed {
namespace {

constexpr const char* kName = "recurrent";

struct RecurrentOpSaved {
  Var x;
  std::array<RecurrentVars, 2> parameters;
  size_t count;  // of directions
  RecurrentOpOptions options;
  Var hidden, cell;  // after the last step
  std::array<RecurrentDirection, 2> directions;
  RecurrentSaved forward;

  RecurrentInputs inputs() const { return {options.kind, x.value<3>(), options.lengths}; }
};

// Direction d of states [D, B, H], or of their gradients; null stays null.
template <class T>
View<T, 2> states_of(const View<T, 3>& states, size_t d) {
  return states.data() == nullptr ? View<T, 2>() : states[static_cast<int64_t>(d)];
}

View<const float, 2> states_of(const Var& states, size_t d) {
  return states.given() ? states_of(states.value<3>(), d) : View<const float, 2>();
}

// Columns d·H … of y [B, T, D·H], or of its gradient; null stays null.
template <class T>
View<T, 3> columns_of(const View<T, 3>& y, size_t d, size_t directions) {
  const int64_t hidden = y.size(2) / static_cast<int64_t>(directions);
  return y.data() == nullptr ? View<T, 3>() : y.slice(2, static_cast<int64_t>(d) * hidden, hidden);
}

View<const float, 1> bias_of(const Var& bias) { return bias.given() ? bias.value<1>() : View<const float, 1>(); }

RecurrentDirection direction_of(const RecurrentOpSaved& saved, const Var& y, size_t d) {
  const RecurrentVars& p = saved.parameters[d];
  RecurrentDirection result;
  result.parameters = {p.weight_ih.value<2>(), p.weight_hh.value<2>(), bias_of(p.bias_ih), bias_of(p.bias_hh)};
  result.first = {states_of(saved.options.hidden, d), states_of(saved.options.cell, d)};
  result.y = columns_of(y.output<3>(), d, saved.count);
  result.last.hidden = states_of(saved.hidden.output<3>(), d);
  if (saved.cell.given()) result.last.cell = states_of(saved.cell.output<3>(), d);
  return result;
}

InputGradient<3> gradient_of(const Var& states) {
  return states.given() ? states.input_gradient<3>() : InputGradient<3>();
}

void recurrent_op_backward(const RecurrentOpSaved& saved, const Var& y) {
  std::array<RecurrentGradients, 2> gradients;
  const InputGradient<3> d_x = saved.x.input_gradient<3>();
  const InputGradient<3> d_hidden = gradient_of(saved.options.hidden);
  const InputGradient<3> d_cell = gradient_of(saved.options.cell);
  for (size_t d = 0; d < saved.count; ++d) {
    const RecurrentVars& p = saved.parameters[d];
    RecurrentGradients& to = gradients[d];
    to.d_y = columns_of(y.arrived<3>(), d, saved.count);
    to.d_last.hidden = states_of(saved.hidden.arrived<3>(), d);
    if (saved.cell.given()) to.d_last.cell = states_of(saved.cell.arrived<3>(), d);
    to.d_first_hidden = {states_of(d_hidden.view, d), d_hidden.add};
    to.d_first_cell = {states_of(d_cell.view, d), d_cell.add};
    to.parameters.weight_ih = p.weight_ih.added<2>();
    to.parameters.weight_hh = p.weight_hh.added<2>();
    if (p.bias_ih.given()) to.parameters.bias_ih = p.bias_ih.added<1>();
    if (p.bias_hh.given()) to.parameters.bias_hh = p.bias_hh.added<1>();
  }
  recurrent_backward(saved.inputs(), {saved.directions.data(), saved.count}, saved.forward,
                     {gradients.data(), saved.count}, d_x, &y.tape().scratch());
}

// Shapes that the views below could not have; the rest is refused by recurrent_forward.
void check_ranks(const Var& x, std::span<const RecurrentVars> directions, const RecurrentOpOptions& options) {
  check(x.rank() == 3, kName, "x has shape ", x.shape(), ", expected [B, T, I]");
  check(directions.size() == 1 || directions.size() == 2, kName, directions.size(),
        " directions; give the parameters of one, or of two for both");
  for (const RecurrentVars& p : directions) {
    check(p.weight_ih.rank() == 2 && p.weight_hh.rank() == 2, kName, "weight_ih ", p.weight_ih.shape(),
          " and weight_hh ", p.weight_hh.shape(), ", expected [G·H, I] and [G·H, H]");
  }
  const Dims states{static_cast<int64_t>(directions.size()), x.size(0), directions[0].weight_hh.size(1)};
  check(!options.hidden.given() || options.hidden.shape() == states, kName, "hidden has shape ", options.hidden.shape(),
        ", expected [directions, B, H] = ", states);
  check(!options.cell.given() || options.cell.shape() == states, kName, "cell has shape ", options.cell.shape(),
        ", expected [directions, B, H] = ", states);
}

}  // namespace

RecurrentResult recurrent(const Var& x, std::span<const RecurrentVars> directions, const RecurrentOpOptions& options) {
  check_ranks(x, directions, options);
  Tape& tape = x.tape();
  const auto count = static_cast<int64_t>(directions.size());
  const RecurrentVars& p = directions.front();
  const RecurrentVars& q = directions.back();
  const int64_t hidden = p.weight_hh.size(1);
  const auto output = [&](const Dims& shape) {
    return tape.output(shape, {x, p.weight_ih, p.weight_hh, p.bias_ih, p.bias_hh, q.weight_ih, q.weight_hh, q.bias_ih,
                               q.bias_hh, options.hidden, options.cell});
  };
  const Dims states{count, x.size(0), hidden};
  const bool has_cell = options.kind == RecurrentKind::lstm;
  const Var y = output({x.size(0), x.size(1), count * hidden});
  const bool keep = y.needs_gradient();
  const Arena::Scope scope(tape.scratch());  // of what is saved, if no backward needs it
  RecurrentOpSaved saved{
      x, {}, directions.size(), options, {}, {}, {}, RecurrentSaved(keep ? tape.step_memory() : tape.scratch(), keep)};
  std::copy(directions.begin(), directions.end(), saved.parameters.begin());
  saved.hidden = output(states);
  if (has_cell) saved.cell = output(states);
  if (keep && !options.lengths.empty()) {
    auto* const kept = tape.keep<int64_t>(static_cast<int64_t>(options.lengths.size()));
    std::copy(options.lengths.begin(), options.lengths.end(), kept);
    saved.options.lengths = {kept, options.lengths.size()};
  }
  for (size_t d = 0; d < saved.count; ++d) saved.directions[d] = direction_of(saved, y, d);
  recurrent_forward(saved.inputs(), {saved.directions.data(), saved.count}, saved.forward, &tape.scratch());
  const RecurrentResult result{y, saved.hidden, saved.cell};
  tape.record<recurrent_op_backward>(y, saved, has_cell ? 2 : 1);
  return result;
}

}  // namespace heed
