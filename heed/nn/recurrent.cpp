#include "heed/nn/recurrent.h"

#include <array>
#include <cmath>
#include <memory>

#include "heed/autograd/basic_ops.h"
#include "heed/autograd/layer_ops.h"
#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed::nn {
namespace {

const char* name_of(RecurrentKind kind) {
  return kind == RecurrentKind::lstm ? "nn::LSTM" : kind == RecurrentKind::gru ? "nn::GRU" : "nn::RNN";
}

// The states of one layer; empty stays empty.
Var states_of_layer(const Var& states, int64_t layer, int64_t directions) {
  return states.given() ? slice(states, 0, layer * directions, (layer + 1) * directions) : Var();
}

}  // namespace

RecurrentLayers::RecurrentLayers(RecurrentKind which, const RecurrentOptions& given) : kind(which), options(given) {
  const char* const name = name_of(kind);
  check(options.inputs > 0 && options.hidden > 0, name, options.inputs, " inputs and ", options.hidden,
        " hidden units; both must be given");
  check(options.layers > 0, name, options.layers, " layers; there must be one or more");
  check(options.dropout >= 0.0F && options.dropout <= 1.0F, name, "dropout is ", options.dropout,
        "; it is a probability, in 0 … 1");
  const bool is_relu = kind == RecurrentKind::rnn_relu && options.nonlinearity == Activation::relu;
  check(is_relu || options.nonlinearity == Activation::tanh, name,
        "nonlinearity is not tanh; only RNN has another, which is relu");
  const int64_t count = options.bidirectional ? 2 : 1;
  const int64_t gates = recurrent_gates(kind) * options.hidden;
  directions.resize(static_cast<size_t>(options.layers * count));
  for (size_t i = 0; i < directions.size(); ++i) {
    const bool is_first = static_cast<int64_t>(i) < count;
    directions[i].weight_ih = Parameter({gates, is_first ? options.inputs : count * options.hidden});
    directions[i].weight_hh = Parameter({gates, options.hidden});
    if (!options.bias) continue;
    directions[i].bias_ih = Parameter({gates});
    directions[i].bias_hh = Parameter({gates});
  }
}

std::string RecurrentLayers::suffix_of(size_t direction) const {
  const size_t count = options.bidirectional ? 2 : 1;
  return "_l" + std::to_string(direction / count) + (direction % count == 1 ? "_reverse" : "");
}

// Uniform in ±1/√H, all of them.
void RecurrentLayers::initialise(Initialiser& draw) {
  const auto bound = static_cast<float>(1.0 / std::sqrt(static_cast<double>(options.hidden)));
  for (Direction& each : directions) {
    for (Parameter* parameter : {&each.weight_ih, &each.weight_hh, &each.bias_ih, &each.bias_hh}) {
      draw.uniform(*parameter, -bound, bound);
    }
  }
}

RecurrentOutput RecurrentLayers::operator()(const Var& x, const RecurrentCall& call) const {
  const char* const name = name_of(kind);
  check(x.rank() == 3 && x.size(2) == options.inputs, name, "x has shape ", x.shape(), ", expected [B, T, ",
        options.inputs, "]");
  const int64_t count = options.bidirectional ? 2 : 1;
  const Dims states{options.layers * count, x.size(0), options.hidden};
  check(!call.hidden.given() || call.hidden.shape() == states, name, "hidden has shape ", call.hidden.shape(),
        ", expected [layers · directions, B, hidden] = ", states);
  check(!call.cell.given() || kind == RecurrentKind::lstm, name, "a cell state, which only LSTM has");
  check(!call.cell.given() || call.cell.shape() == states, name, "cell has shape ", call.cell.shape(),
        ", expected [layers · directions, B, hidden] = ", states);
  Tape& tape = x.tape();
  const auto layers = static_cast<size_t>(options.layers);
  const std::span<Var> hidden(tape.keep<Var>(options.layers), layers);
  const std::span<Var> cell(tape.keep<Var>(options.layers), layers);
  std::uninitialized_default_construct(hidden.begin(), hidden.end());
  std::uninitialized_default_construct(cell.begin(), cell.end());
  Var y = x;
  for (int64_t layer = 0; layer < options.layers; ++layer) {
    if (layer > 0) y = dropout(y, options.dropout);
    std::array<RecurrentVars, 2> vars;
    for (int64_t d = 0; d < count; ++d) {
      const Direction& each = directions[static_cast<size_t>(layer * count + d)];
      vars[static_cast<size_t>(d)] = {tape.parameter(each.weight_ih), tape.parameter(each.weight_hh),
                                      tape.optional_parameter(each.bias_ih), tape.optional_parameter(each.bias_hh)};
    }
    const RecurrentResult result = recurrent(
        y, {vars.data(), static_cast<size_t>(count)},
        {kind, call.lengths, states_of_layer(call.hidden, layer, count), states_of_layer(call.cell, layer, count)});
    y = result.y;
    hidden[static_cast<size_t>(layer)] = result.hidden;
    cell[static_cast<size_t>(layer)] = result.cell;
  }
  if (layers == 1) return {y, hidden[0], cell[0]};
  return {y, concat(hidden, 0), kind == RecurrentKind::lstm ? concat(cell, 0) : Var()};
}

}  // namespace heed::nn
