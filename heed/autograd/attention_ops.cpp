#include "heed/autograd/attention_ops.h"

#include <algorithm>
#include <array>
#include <utility>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"

namespace heed {
namespace {

// Draws from the tape's key; off unless the tape is training.
void set_dropout(Tape& tape, Dropout& dropout) {
  if (!tape.training()) dropout.probability = 0.0F;
  if (dropout.probability == 0.0F) return;
  dropout.seed = tape.step_key().seed;
  dropout.step = tape.step_key().step;
  dropout.layer = tape.next_dropout_site();
}

struct AttentionSaved {
  Var q, k, v;
  AttentionOptions options;
  RowStates<float> rows;
};

AttentionInputs inputs_of(const AttentionSaved& saved) {
  return {saved.q.value<4>(), saved.k.value<4>(), saved.v.value<4>()};
}

// Attention computes all three gradients, in memory apart: one that nobody wants goes to scratch memory, and so does
// that of an input which is also one of those before it (`sums`); it is added afterwards.
struct AttentionDestinations {
  std::array<InputGradient<4>, 3> gradients;
  std::array<float*, 3> sums{};  // null: the gradient is where it belongs
};

AttentionDestinations destinations_of(const AttentionSaved& saved, Arena& scratch) {
  AttentionDestinations result;
  const std::array<const Var*, 3> inputs{&saved.q, &saved.k, &saved.v};
  std::array<const float*, 3> taken{};
  for (size_t n = 0; n < inputs.size(); ++n) {
    const Var& input = *inputs[n];
    const Var::Destination to = input.destination();
    const bool again = to.data != nullptr && std::count(taken.begin(), taken.end(), to.data) > 0;
    float* const memory = to.data == nullptr || again ? scratch.take<float>(input.count()) : to.data;
    if (input.count() > 0) taken[n] = to.data;  // an empty one may have another's address
    if (again) result.sums[n] = to.data;
    result.gradients[n] = {View<float, 4>(memory, input.shape().shape<4>()), memory == to.data && to.add};
  }
  return result;
}

void attention_op_backward(const AttentionSaved& saved, const Var& y) {
  Arena& scratch = y.tape().scratch();
  const Arena::Scope scope(scratch);
  const AttentionDestinations to = destinations_of(saved, scratch);
  attention_backward(inputs_of(saved), saved.options, {y.value<4>(), saved.rows, y.arrived<4>()},
                     {to.gradients[0], to.gradients[1], to.gradients[2], {}});
  for (size_t n = 0; n < to.sums.size(); ++n) {
    if (to.sums[n] == nullptr) continue;
    const View<float, 4>& added = to.gradients[n].view;
    for (int64_t i = 0; i < added.count(); ++i) to.sums[n][i] += added.data()[i];
  }
}

struct MultiHeadSaved {
  Var query, key, value;
  MultiHeadVars parameters;
  MultiHeadOpOptions options;
  MultiHeadState state;
};

// Rows of W_Q, W_K and W_V in a matrix of (H + 2 Hkv) · D rows; D is the width of a head.
struct InRows {
  int64_t q = 0, kv = 0;
};

InRows in_rows(const MultiHeadOpOptions& options, int64_t rows) {
  const int64_t kv_heads = options.kv_heads == 0 ? options.heads : options.kv_heads;
  const int64_t heads = options.heads + 2 * kv_heads;
  check(options.heads > 0 && kv_heads > 0 && rows % heads == 0, "multihead", "the ", rows,
        " rows of the weights of q, k and v are no multiple of ", options.heads, " + 2 · ", kv_heads, " heads");
  return {rows / heads * options.heads, rows / heads * kv_heads};
}

// Cuts views of the parameters, or of their gradients, out of what `weight_of` and `bias_of` give for each Var.
template <class T, class WeightOf, class BiasOf>
MultiHeadParameters<T> cut(const MultiHeadVars& vars, const MultiHeadOpOptions& options, WeightOf weight_of,
                           BiasOf bias_of) {
  MultiHeadParameters<T> p;
  if (vars.in_weight.given()) {
    const InRows rows = in_rows(options, vars.in_weight.size(0));
    const View<T, 2> all = weight_of(vars.in_weight);
    if (all.data() != nullptr) {
      p.q = all.slice(0, 0, rows.q);
      p.k = all.slice(0, rows.q, rows.kv);
      p.v = all.slice(0, rows.q + rows.kv, rows.kv);
    }
  } else {
    p.q = weight_of(vars.q_weight);
    p.k = weight_of(vars.k_weight);
    p.v = weight_of(vars.v_weight);
  }
  if (vars.in_bias.given()) {
    const View<T, 1> all = bias_of(vars.in_bias);
    if (all.data() != nullptr) {
      const InRows rows = in_rows(options, vars.in_bias.size(0));
      p.q_bias = all.slice(0, 0, rows.q);
      p.k_bias = all.slice(0, rows.q, rows.kv);
      p.v_bias = all.slice(0, rows.q + rows.kv, rows.kv);
    }
  }
  if (vars.out_weight.given()) p.out = weight_of(vars.out_weight);
  if (vars.out_bias.given()) p.out_bias = bias_of(vars.out_bias);
  return p;
}

MultiHeadParameters<const float> values_of(const MultiHeadVars& vars, const MultiHeadOpOptions& options) {
  return cut<const float>(
      vars, options, [](const Var& var) { return var.value<2>(); }, [](const Var& var) { return var.value<1>(); });
}

MultiHeadParameters<float> gradients_of(const MultiHeadVars& vars, const MultiHeadOpOptions& options) {
  return cut<float>(
      vars, options, [](const Var& var) { return var.added<2>(); }, [](const Var& var) { return var.added<1>(); });
}

MultiHeadOptions layer_options(const MultiHeadOpOptions& options) {
  MultiHeadOptions result;
  result.heads = options.heads;
  result.kv_heads = options.kv_heads;
  result.attention = options.attention;
  result.rotary.table = options.rotary.get();
  if (options.residual.given()) result.residual = options.residual.value<3>();
  return result;
}

MultiHeadInputs inputs_of(const MultiHeadSaved& saved) {
  return {saved.query.value<3>(), saved.key.value<3>(), saved.value.value<3>()};
}

void multihead_op_backward(const MultiHeadSaved& saved, const Var& y) {
  MultiHeadGradients gradients;
  gradients.query = saved.query.input_gradient<3>();
  gradients.key = saved.key.input_gradient<3>();  // inputs that are one Var have one view, which receives the sum
  gradients.value = saved.value.input_gradient<3>();
  gradients.parameters = gradients_of(saved.parameters, saved.options);
  multihead_backward(inputs_of(saved), values_of(saved.parameters, saved.options), layer_options(saved.options),
                     saved.state, y.arrived<3>(), gradients);
  if (saved.options.residual.given()) saved.options.residual.take_gradient_of(y);
}

}  // namespace

Var attention(const Var& q, const Var& k, const Var& v, AttentionOptions options) {
  check(q.rank() == 4 && k.rank() == 4 && v.rank() == 4, "attention", "q ", q.shape(), ", k ", k.shape(), ", v ",
        v.shape(), ": all must be [B, T, H, D]");
  Tape& tape = q.tape();
  set_dropout(tape, options.scores.dropout);
  options.arena = &tape.scratch();
  const Var y = tape.output({q.size(0), q.size(1), q.size(2), v.size(3)}, {q, k, v});
  AttentionSaved saved{q, k, v, std::move(options), {}};
  if (y.needs_gradient()) {
    const Shape<3> rows{q.size(0), q.size(2), q.size(1)};
    const int64_t count = element_count(rows);
    saved.rows = {{tape.keep<float>(count), rows}, {tape.keep<float>(count), rows}};
  }
  attention_forward(inputs_of(saved), saved.options, y.output<4>(), saved.rows);
  return tape.record<attention_op_backward>(y, std::move(saved));
}

Var multihead(const Var& query, const Var& key, const Var& value, const MultiHeadVars& p,
              const MultiHeadOpOptions& options) {
  constexpr const char* kName = "multihead";
  check(query.rank() == 3 && key.rank() == 3 && value.rank() == 3, kName, "query ", query.shape(), ", key ",
        key.shape(), ", value ", value.shape(), ": all must be [B, T, C]");
  check(p.in_weight.given() != (p.q_weight.given() && p.k_weight.given() && p.v_weight.given()), kName,
        "give in_weight, or q_weight, k_weight and v_weight");
  check(p.out_weight.given(), kName, "out_weight must be given");
  const Var& residual = options.residual;
  Tape& tape = query.tape();
  const Var y = tape.output({query.size(0), query.size(1), p.out_weight.size(0)},
                            {query, key, value, p.in_weight, p.q_weight, p.k_weight, p.v_weight, p.in_bias,
                             p.out_weight, p.out_bias, residual});
  const Arena::Scope scope(tape.scratch());  // of what is saved, if no backward needs it
  MultiHeadSaved saved{query, key,     value,
                       p,     options, MultiHeadState(y.needs_gradient() ? tape.step_memory() : tape.scratch())};
  set_dropout(tape, saved.options.attention.scores.dropout);
  saved.options.attention.arena = &tape.scratch();
  multihead_forward(inputs_of(saved), values_of(p, saved.options), layer_options(saved.options), saved.state,
                    y.output<3>());
  return tape.record<multihead_op_backward>(y, std::move(saved));
}

}  // namespace heed
