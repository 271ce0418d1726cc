#include "heed/attention/multihead.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "heed/attention/problem.h"
#include "heed/attention/projection.h"
#include "heed/attention/trace_steps.h"
#include "heed/core/error.h"
#include "heed/core/overlap.h"
#include "heed/simd/isa.h"

namespace heed {
namespace {

struct Sizes {
  int64_t batch, t_q, t_k, heads, kv_heads, d_k, d_v, out;

  Shape<4> q() const { return {batch, t_q, heads, d_k}; }
  Shape<4> k() const { return {batch, t_k, kv_heads, d_k}; }
  Shape<4> v() const { return {batch, t_k, kv_heads, d_v}; }
  Shape<3> concat() const { return {batch, t_q, heads * d_v}; }
  Shape<3> rows() const { return {batch, heads, t_q}; }
  Shape<3> y() const { return {batch, t_q, out}; }
};

void check_input(const char* function, const char* name, View<const float, 3> input, int64_t width) {
  check_given(function, name, input);
  check_view(function, name, input);
  check(input.size(2) == width, function, name, " has shape ", input.shape(), ", but its weight takes width ", width);
  check_even_rows(function, name, input);
}

// Plain parameters, before anything is computed of their sizes.
void check_parameters(const char* function, const MultiHeadParameters<const float>& p) {
  visit_parameters([&](const char* name, const auto& each) { check_extent(function, name, each); }, p);
}

void check_linear(const char* function, const char* name, const LinearParameters& linear) {
  check(linear.bias.data() == nullptr || linear.bias.size(0) == linear.outputs(), function, name, "_bias has ",
        linear.bias.size(0), " values for ", linear.outputs(), " outputs");
  if (linear.packed == nullptr || !linear.given()) return;
  check(linear.packed->isa() == isa(), function, "the weights were packed for ", isa_name(linear.packed->isa()),
        ", and ", isa_name(isa()), " is in use; pack them again after set_isa");
}

// The sizes of the heads, from the weights.
Sizes check_weights(const char* function, const Projections& p, const MultiHeadOptions& options) {
  const int64_t heads = options.heads;
  const int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  check(heads != 0, function, "options.heads is 0; give the number of query heads, which the weights do not tell");
  check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, function, "the ", heads,
        " heads must be a multiple of the ", kv_heads, " key/value heads");
  check(p.q.given() && p.k.given() && p.v.given(), function, "the weights of q, k and v must be given");
  check(p.q.outputs() > 0 && p.q.outputs() % heads == 0, function, "W_Q has shape ", p.q.shape(), ", but there are ",
        heads, " heads: its rows must be H·Dk");
  const int64_t d_k = p.q.outputs() / heads;
  check(p.k.outputs() == kv_heads * d_k, function, "W_K has shape ", p.k.shape(), ", expected ", kv_heads * d_k,
        " rows (Hkv·Dk)");
  check(p.v.outputs() > 0 && p.v.outputs() % kv_heads == 0, function, "W_V has shape ", p.v.shape(), ", but there are ",
        kv_heads, " key/value heads: its rows must be Hkv·Dv");
  const int64_t d_v = p.v.outputs() / kv_heads;
  check_sizes(function, "the width of the heads [H, Dv]", Shape<2>{heads, d_v});
  check(!p.out.given() || p.out.inputs() == heads * d_v, function, "W_O has shape ", p.out.shape(), ", expected ",
        heads * d_v, " columns (H·Dv)");
  check(p.out.given() || p.out.bias.data() == nullptr, function, "out_bias without W_O");
  p.visit([&](const char* name, const LinearParameters& each) { check_linear(function, name, each); });
  return {0, 0, 0, heads, kv_heads, d_k, d_v, p.out.given() ? p.out.outputs() : heads * d_v};
}

Sizes check_layer(const char* function, const MultiHeadInputs& in, const Projections& p,
                  const MultiHeadOptions& options) {
  Sizes s = check_weights(function, p, options);
  check_input(function, "query", in.query, p.q.inputs());
  check_input(function, "key", in.key, p.k.inputs());
  check_input(function, "value", in.value, p.v.inputs());
  check(in.query.size(0) == in.key.size(0) && in.key.size(0) == in.value.size(0) && in.key.size(1) == in.value.size(1),
        function, "query ", in.query.shape(), ", key ", in.key.shape(), " and value ", in.value.shape(),
        " must have one batch size, and key and value one length");
  s.batch = in.query.size(0);
  s.t_q = in.query.size(1);
  s.t_k = in.key.size(1);
  // What attention would refuse is refused now, before anything is written. These views only carry shapes.
  const float any = 0.0F;
  check_problem(function, {{&any, s.q()}, {&any, s.k()}, {&any, s.v()}}, options.attention);
  if (const LayerRotary& rotary = options.rotary; rotary.table != nullptr) {
    check_rotary(function, "q", s.q(), *rotary.table, rotary.query);
    check_rotary(function, "k", s.k(), *rotary.table, rotary.key);
  }
  return s;
}

bool one_input(const MultiHeadInputs& in) { return same_view(in.query, in.key) && same_view(in.query, in.value); }

View<float, 3> taken(Arena& arena, const Shape<3>& shape) { return {arena.take<float>(element_count(shape)), shape}; }

// The three projections, or their gradients.
struct Projected {
  View<float, 3> all;       // [B, T, (H + Hkv)·Dk + Hkv·Dv] when fused
  View<float, 3> rows[3];   // [B, T, H·D]
  View<float, 4> heads[3];  // [B, T, H, D]
};
// memory(i, shape): part i, or all of them as part 0 when fused.
template <class Memory>
Projected projected(bool fused, const Sizes& s, Memory memory) {
  const Shape<4> shapes[3] = {s.q(), s.k(), s.v()};
  Projected result;
  const int64_t width = s.heads * s.d_k + s.kv_heads * (s.d_k + s.d_v);
  if (fused) result.all = memory(0, {s.batch, s.t_q, width});
  int64_t offset = 0;
  for (int i = 0; i < 3; ++i) {
    const auto [batch, length, heads, head_width] = shapes[i];
    result.rows[i] =
        fused ? result.all.slice(2, offset, heads * head_width) : memory(i, {batch, length, heads * head_width});
    result.heads[i] = heads_of(result.rows[i], heads, head_width);
    offset += heads * head_width;
  }
  return result;
}

// Turns q and k, or their gradients back, in place.
template <class Rotate>
void apply_rotary(const LayerRotary& rotary, const Projected& made, Rotate rotate) {
  if (rotary.table == nullptr) return;
  rotate(made.heads[0], *rotary.table, rotary.query, made.heads[0]);
  rotate(made.heads[1], *rotary.table, rotary.key, made.heads[1]);
}

template <int N>
void check_gradient(const char* function, const char* name, View<float, N> gradient,
                    const std::type_identity_t<Shape<N>>& expected) {
  check(gradient.data() == nullptr || gradient.shape() == expected, function, "gradient of ", name, " has shape ",
        gradient.shape(), ", expected ", expected);
  check_extent(function, name, gradient);
  if constexpr (N == 3) check_even_rows(function, name, gradient);
}

void check_gradients(const char* function, const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                     const MultiHeadGradients& g) {
  check_gradient(function, "query", g.query.view, in.query.shape());
  check_gradient(function, "key", g.key.view, in.key.shape());
  check_gradient(function, "value", g.value.view, in.value.shape());
  visit_projections(
      [&](const ProjectionNames& names, auto gradient, auto of) {
        check_gradient(function, names.weight, gradient.weight, of.weight.shape());
        check_gradient(function, names.bias, gradient.bias, Shape<1>{of.weight.size(0)});
      },
      g.parameters, p);
  const auto check_gradient_apart = [&](const char* name, const InputGradient<3>& gradient) {
    if (gradient.view.data() == nullptr) return;
    check_apart(function, name, gradient.view, "query", in.query);
    check_apart(function, name, gradient.view, "key", in.key);
    check_apart(function, name, gradient.view, "value", in.value);
  };
  check_gradient_apart("the gradient of query", g.query);
  check_gradient_apart("the gradient of key", g.key);
  check_gradient_apart("the gradient of value", g.value);
}

// An empty tensor for a null view.
Tensor tensor_of(const char* name, View<const float, 1> values) {
  if (values.data() == nullptr) return {};
  check_extent("PackedMultiHead", name, values);
  Tensor result({values.size(0)});
  for (int64_t i = 0; i < values.size(0); ++i) result.view<1>()(i) = values(i);
  return result;
}

// The steps of a forward call, in their order. `y` is null without W_O.
void record_layer(const MultiHeadInputs& in, const MultiHeadOptions& options, const MultiHeadState& state,
                  View<const float, 3> y) {
  Trace& trace = *options.trace;
  record_step(trace, AttentionStep::x, in.query);
  if (!state.fused) record_step(trace, AttentionStep::context, in.key);
  const AttentionInputs& attention = state.attention;
  const View<const float, 3> concat = state.concat;
  record_attention(attention, options.attention, state.rows, heads_of(concat, attention.q.size(2), attention.v.size(3)),
                   trace);
  record_step(trace, AttentionStep::concat, concat);
  if (y.data() != nullptr) record_step(trace, AttentionStep::out, y);
}

void forward(const MultiHeadInputs& in, const Projections& p, const MultiHeadOptions& options, MultiHeadState& state,
             View<float, 3> y) {
  constexpr const char* kName = "multihead_forward";
  const Sizes s = check_layer(kName, in, p, options);
  check_tokens(kName, "y", y, s.y());
  check_apart(kName, "y", y, "query", in.query);
  check_apart(kName, "y", y, "key", in.key);
  check_apart(kName, "y", y, "value", in.value);
  if (const View<const float, 3>& residual = options.residual; residual.data() != nullptr) {
    check_tokens(kName, "residual", residual, s.y());
    check(p.out.given(), kName, "a residual without W_O: it is added where W_O writes y");
  }
  const auto project = [&](View<const float, 3> from, const LinearParameters& map, View<float, 3> to) {
    project_tokens(from, map, to, options.attention.arena);
  };

  state.clear();
  state.fused = one_input(in);
  state.rounded = p.rounded();
  const Projected made = projected(
      state.fused, s, [&](int i, const Shape<3>& shape) { return state.projections[i] = state.keep(i, shape); });
  state.attention = {made.heads[0], made.heads[1], made.heads[2]};
  if (state.fused && p.qkv.given()) {
    project(in.query, p.qkv, made.all);
  } else {
    project(in.query, p.q, made.rows[0]);
    project(in.key, p.k, made.rows[1]);
    project(in.value, p.v, made.rows[2]);
  }
  apply_rotary(options.rotary, made, rotary_forward);
  state.concat = state.keep(3, s.concat());
  state.rows = {state.keep(4, s.rows()), state.keep(5, s.rows())};
  attention_forward(state.attention, options.attention, heads_of(state.concat, s.heads, s.d_v), state.rows);
  project_heads(state.concat, p.out, y, options.residual, options.attention.arena);
  if (options.trace != nullptr) record_layer(in, options, state, p.out.given() ? y : View<const float, 3>());
}

// Where the gradients of a projection go; null views are not computed.
struct ProjectionGradients {
  InputGradient<3> input;
  View<float, 2> weight;
  View<float, 1> bias;
};

// Is it what forward left for these sizes?
bool fits(const MultiHeadState& state, const Sizes& s) {
  return state.attention.q.shape() == s.q() && state.attention.k.shape() == s.k() &&
         state.attention.v.shape() == s.v() && state.concat.shape() == s.concat() &&
         state.rows.shift.shape() == s.rows();
}

}  // namespace

void MultiHeadState::clear() {
  for (View<float, 3>& each : projections) each = {};
  concat = {};
  rows = {};
  attention = {};
}

View<float, 3> MultiHeadState::keep(int part, const Shape<3>& shape) {
  if (memory_ != nullptr) return {memory_->take<float>(element_count(shape)), shape};
  return shaped(own_[part], shape);
}

PackedMultiHead::PackedMultiHead(const MultiHeadParameters<const float>& p, WeightStorage storage) {
  visit_projections(
      [&](const ProjectionNames& names, auto packed, auto plain) {
        packed.weight = PackedMatrix(plain.weight.transposed(), storage);
        packed.bias = tensor_of(names.bias, plain.bias);
      },
      *this, p);
}

void multihead_forward(const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                       const MultiHeadOptions& options, MultiHeadState& state, View<float, 3> y) {
  check_parameters("multihead_forward", p);
  forward(in, projections_of(p), options, state, y);
}

void multihead_forward(const MultiHeadInputs& in, const PackedMultiHead& p, const MultiHeadOptions& options,
                       MultiHeadState& state, View<float, 3> y) {
  forward(in, projections_of(p), options, state, y);
}

void multihead_backward(const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                        const MultiHeadOptions& options, const MultiHeadState& state, View<const float, 3> d_y,
                        const MultiHeadGradients& gradients) {
  constexpr const char* kName = "multihead_backward";
  check_parameters(kName, p);
  const Sizes s = check_layer(kName, in, projections_of(p), options);
  check_tokens(kName, "d_y", d_y, s.y());
  check(p.out.data() != nullptr || d_y.size(2) <= 1 || d_y.stride(2) == 1, kName, "d_y has strides ", d_y.strides(),
        "; without W_O its last dimension must be contiguous: copy it first");
  check_gradients(kName, in, p, gradients);
  gradients.scores.check_fits(kName, options.attention.scores);
  check(state.fused == one_input(in) && fits(state, s), kName,
        "the state is not that of multihead_forward with these inputs and parameters: call it first");
  check(!state.rounded, kName,
        "forward's weights were stored in bf16, and gradients are those of f32 weights: call multihead_forward with "
        "plain parameters, or packed in f32");
  const View<const float, 3> concat = state.concat;
  const MultiHeadParameters<float>& d_p = gradients.parameters;
  CallArena arena(options.attention.arena);
  const auto project_backward = [&](View<const float, 3> from, View<const float, 2> weight, View<const float, 3> d_to,
                                    const ProjectionGradients& to) {
    const InputGradient<2> d_from(tokens(to.input.view), to.input.add);
    linear_backward({.x = tokens(from)}, weight, tokens(d_to), {d_from, to.weight, to.bias}, &*arena);
  };

  View<const float, 3> d_concat = d_y;
  if (p.out.data() != nullptr) {
    const View<float, 3> made = taken(*arena, s.concat());
    project_backward(concat, p.out, d_y, {made, d_p.out, d_p.out_bias});
    d_concat = made;
  }
  const Projected d_made = projected(state.fused, s, [&](int, const Shape<3>& shape) { return taken(*arena, shape); });
  const View<const float, 4> d_heads = heads_of(d_concat, s.heads, s.d_v);
  const AttentionGradients d_attention{d_made.heads[0], d_made.heads[1], d_made.heads[2], gradients.scores};
  attention_backward(state.attention, options.attention, {heads_of(concat, s.heads, s.d_v), state.rows, d_heads},
                     d_attention);
  if (options.trace != nullptr) {
    record_attention_gradients(state.attention, options.attention, d_heads, d_attention, *options.trace);
  }
  apply_rotary(options.rotary, d_made, rotary_backward);

  const View<float, 3>& d_query = gradients.query.view;
  const View<float, 3>& d_key = gradients.key.view;
  const View<float, 3>& d_value = gradients.value.view;
  const bool one_gradient = same_view(d_query, d_key) && same_view(d_query, d_value);
  if (state.fused && one_gradient && lie_together(p) && lie_together(d_p)) {
    const View<const float, 2> weight = all_weights(p);
    return project_backward(in.query, weight, d_made.all,
                            {gradients.query, all_weights(d_p), all_biases(d_p, weight.size(0))});
  }
  // Views that are one tensor receive the sum. One without elements may have the address of another tensor.
  const auto adds = [](const InputGradient<3>& gradient, auto... before) {
    return gradient.add || ((before.count() > 0 && before.data() == gradient.view.data()) || ...);
  };
  project_backward(in.query, p.q, d_made.rows[0], {gradients.query, d_p.q, d_p.q_bias});
  project_backward(in.key, p.k, d_made.rows[1], {{d_key, adds(gradients.key, d_query)}, d_p.k, d_p.k_bias});
  project_backward(in.value, p.v, d_made.rows[2],
                   {{d_value, adds(gradients.value, d_query, d_key)}, d_p.v, d_p.v_bias});
}

}  // namespace heed
