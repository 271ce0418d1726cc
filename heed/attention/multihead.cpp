#include "heed/attention/multihead.h"

#include <algorithm>
#include <type_traits>
#include <utility>

#include "heed/core/error.h"
#include "heed/ops/matmul.h"

namespace heed {
namespace {

struct Sizes {
  int64_t batch, t_q, t_k, heads, kv_heads, d_k, d_v, out;
};

// [B, T, C] as [B·T, C].
template <class T>
View<T, 2> tokens(View<T, 3> view) {
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}, {view.stride(1), view.stride(2)}};
}

// [B, T, H·D] from `offset` on as [B, T, H, D].
template <class T>
View<T, 4> heads_of(View<T, 3> view, int64_t offset, int64_t heads, int64_t width) {
  return {view.data() + offset, {view.size(0), view.size(1), heads, width}, {view.stride(0), view.stride(1), width, 1}};
}

void check_input(const char* function, const char* name, View<const float, 3> input, int64_t weight_width) {
  check(input.count() == 0 || input.data() != nullptr, function, name, " is a null view of shape ", input.shape());
  check(input.size(2) == weight_width, function, name, " has shape ", input.shape(), ", but its weight takes width ",
        weight_width);
  check(input.size(0) <= 1 || input.size(1) == 0 || input.stride(0) == input.size(1) * input.stride(1), function, name,
        " has strides ", input.strides(), "; the rows of all items must be evenly spaced: copy it first");
}

void check_bias(const char* function, const char* name, View<const float, 1> bias, int64_t rows) {
  check(bias.data() == nullptr || bias.size(0) == rows, function, name, " has ", bias.size(0), " values for ", rows,
        " outputs");
}

Sizes check_layer(const char* function, const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                  const MultiHeadOptions& options) {
  const int64_t heads = options.heads;
  const int64_t kv_heads = options.kv_heads == 0 ? heads : options.kv_heads;
  check(heads > 0 && kv_heads > 0 && heads % kv_heads == 0, function, "the ", heads,
        " heads must be a multiple of the ", kv_heads, " key/value heads");
  check(p.q.data() != nullptr && p.k.data() != nullptr && p.v.data() != nullptr, function,
        "the weights of q, k and v must be given");
  check(p.q.size(0) > 0 && p.q.size(0) % heads == 0, function, "W_Q has shape ", p.q.shape(), ", but there are ", heads,
        " heads: its rows must be H·Dk");
  const int64_t d_k = p.q.size(0) / heads;
  check(p.k.size(0) == kv_heads * d_k, function, "W_K has shape ", p.k.shape(), ", expected ", kv_heads * d_k,
        " rows (Hkv·Dk)");
  check(p.v.size(0) > 0 && p.v.size(0) % kv_heads == 0, function, "W_V has shape ", p.v.shape(), ", but there are ",
        kv_heads, " key/value heads: its rows must be Hkv·Dv");
  const int64_t d_v = p.v.size(0) / kv_heads;
  check(p.out.data() == nullptr || p.out.size(1) == heads * d_v, function, "W_O has shape ", p.out.shape(),
        ", expected ", heads * d_v, " columns (H·Dv)");
  check_input(function, "query", in.query, p.q.size(1));
  check_input(function, "key", in.key, p.k.size(1));
  check_input(function, "value", in.value, p.v.size(1));
  check(in.query.size(0) == in.key.size(0) && in.key.size(0) == in.value.size(0) && in.key.size(1) == in.value.size(1),
        function, "query ", in.query.shape(), ", key ", in.key.shape(), " and value ", in.value.shape(),
        " must have one batch size, and key and value one length");
  check_bias(function, "q_bias", p.q_bias, p.q.size(0));
  check_bias(function, "k_bias", p.k_bias, p.k.size(0));
  check_bias(function, "v_bias", p.v_bias, p.v.size(0));
  check(p.out_bias.data() == nullptr || p.out.data() != nullptr, function, "out_bias without W_O");
  if (p.out.data() != nullptr) check_bias(function, "out_bias", p.out_bias, p.out.size(0));
  const int64_t out = p.out.data() != nullptr ? p.out.size(0) : heads * d_v;
  return {in.query.size(0), in.query.size(1), in.key.size(1), heads, kv_heads, d_k, d_v, out};
}

template <int N>
bool same_view(View<const float, N> a, View<const float, N> b) {
  return a.data() == b.data() && a.shape() == b.shape() && a.strides() == b.strides();
}

// Do b's rows (or values) follow a's in memory?
bool follows(View<const float, 2> a, View<const float, 2> b) {
  return a.size(1) == b.size(1) && a.strides() == b.strides() && b.data() == a.data() + a.size(0) * a.stride(0);
}
bool follows(View<const float, 1> a, View<const float, 1> b) {
  if (a.data() == nullptr || b.data() == nullptr) return a.data() == b.data();
  return a.stride(0) == 1 && b.stride(0) == 1 && b.data() == a.data() + a.size(0);
}

// One product can make q, k and v: one input, and parameters that lie in one matrix.
bool can_fuse(const MultiHeadInputs& in, const MultiHeadParameters<const float>& p) {
  return same_view<3>(in.query, in.key) && same_view<3>(in.query, in.value) && follows(p.q, p.k) && follows(p.k, p.v) &&
         follows(p.q_bias, p.k_bias) && follows(p.k_bias, p.v_bias);
}

template <class T>
View<T, 2> all_rows(const MultiHeadParameters<T>& p) {
  return {p.q.data(), {p.q.size(0) + p.k.size(0) + p.v.size(0), p.q.size(1)}, p.q.strides()};
}
template <class T>
View<T, 1> all_biases(const MultiHeadParameters<T>& p, int64_t rows) {
  return p.q_bias.data() == nullptr ? View<T, 1>() : View<T, 1>(p.q_bias.data(), {rows});
}

View<float, 3> shaped(Tensor& tensor, int64_t batch, int64_t length, int64_t width) {
  if (tensor.shape() != std::vector<int64_t>{batch, length, width}) tensor = Tensor({batch, length, width});
  return tensor.view<3>();
}

// The three projections, or their gradients, as [B, T, H, D]; the memory is `parts`.
struct Projections {
  View<float, 3> rows[3];   // [B, T, H·D]; when fused the first has them all
  View<float, 4> heads[3];  // [B, T, H, D]
};
Projections projections(Tensor (&parts)[3], bool fused, const Sizes& s) {
  const int64_t widths[3] = {s.heads * s.d_k, s.kv_heads * s.d_k, s.kv_heads * s.d_v};
  const int64_t heads[3] = {s.heads, s.kv_heads, s.kv_heads};
  const int64_t head_width[3] = {s.d_k, s.d_k, s.d_v};
  Projections result;
  int64_t offset = 0;
  if (fused) result.rows[0] = shaped(parts[0], s.batch, s.t_q, widths[0] + widths[1] + widths[2]);
  for (int i = 0; i < 3; ++i) {
    if (!fused) result.rows[i] = shaped(parts[i], s.batch, i == 0 ? s.t_q : s.t_k, widths[i]);
    result.heads[i] = heads_of(result.rows[fused ? 0 : i], fused ? offset : 0, heads[i], head_width[i]);
    offset += widths[i];
  }
  return result;
}

// c = a · weightᵀ + bias
void project(View<const float, 3> a, View<const float, 2> weight, View<const float, 1> bias, View<float, 3> c,
             Workspace* workspace) {
  MatmulOptions options;
  options.bias = bias;
  options.workspace = workspace;
  matmul(tokens(a), weight.transposed(), tokens(c), options);
}

// Where the gradients of a projection go; null views are not computed.
struct ProjectionGradients {
  View<float, 3> input;
  bool add_to_input = false;
  View<float, 2> weight;
  View<float, 1> bias;
};

// The gradients of c = a · weightᵀ + bias: d_a (+)= d_c · weight, d_weight = d_cᵀ · a, d_bias = Σ_tokens d_c.
void project_backward(View<const float, 3> a, View<const float, 2> weight, View<const float, 3> d_c,
                      const ProjectionGradients& gradients, Workspace* workspace) {
  MatmulOptions options;
  options.workspace = workspace;
  const View<const float, 2> d_rows = tokens(d_c);
  if (gradients.weight.data() != nullptr) matmul(d_rows.transposed(), tokens(a), gradients.weight, options);
  if (gradients.bias.data() != nullptr) {
    for (int64_t n = 0; n < d_rows.size(1); ++n) gradients.bias(n) = 0.0F;
    for (int64_t t = 0; t < d_rows.size(0); ++t) {
      for (int64_t n = 0; n < d_rows.size(1); ++n) gradients.bias(n) += d_rows(t, n);
    }
  }
  options.accumulate = gradients.add_to_input;
  if (gradients.input.data() != nullptr) matmul(d_rows, weight, tokens(gradients.input), options);
}

template <int N>
void check_gradient(const char* function, const char* name, View<float, N> gradient,
                    const std::type_identity_t<Shape<N>>& expected) {
  check(gradient.data() == nullptr || gradient.shape() == expected, function, "gradient of ", name, " has shape ",
        gradient.shape(), ", expected ", expected);
}

void check_gradients(const char* function, const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                     const MultiHeadGradients& g) {
  check_gradient(function, "query", g.query, in.query.shape());
  check_gradient(function, "key", g.key, in.key.shape());
  check_gradient(function, "value", g.value, in.value.shape());
  check_gradient(function, "W_Q", g.parameters.q, p.q.shape());
  check_gradient(function, "W_K", g.parameters.k, p.k.shape());
  check_gradient(function, "W_V", g.parameters.v, p.v.shape());
  check_gradient(function, "W_O", g.parameters.out, p.out.shape());
  check_gradient(function, "q_bias", g.parameters.q_bias, Shape<1>{p.q.size(0)});
  check_gradient(function, "k_bias", g.parameters.k_bias, Shape<1>{p.k.size(0)});
  check_gradient(function, "v_bias", g.parameters.v_bias, Shape<1>{p.v.size(0)});
  check_gradient(function, "out_bias", g.parameters.out_bias, Shape<1>{p.out.size(0)});
}

}  // namespace

void multihead_forward(const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                       const MultiHeadOptions& options, MultiHeadState& state, View<float, 3> y) {
  constexpr const char* kName = "multihead_forward";
  const Sizes s = check_layer(kName, in, p, options);
  check(y.shape() == Shape<3>{s.batch, s.t_q, s.out}, kName, "y has shape ", y.shape(), ", expected ",
        Shape<3>{s.batch, s.t_q, s.out});
  check_input(kName, "y", y, s.out);
  state.fused = can_fuse(in, p);
  const Projections made = projections(state.projections, state.fused, s);
  state.attention = {made.heads[0], made.heads[1], made.heads[2]};
  if (state.fused) {
    const View<const float, 2> weight = all_rows(p);
    project(in.query, weight, all_biases(p, weight.size(0)), made.rows[0], options.workspace);
  } else {
    project(in.query, p.q, p.q_bias, made.rows[0], options.workspace);
    project(in.key, p.k, p.k_bias, made.rows[1], options.workspace);
    project(in.value, p.v, p.v_bias, made.rows[2], options.workspace);
  }
  const View<float, 3> reference = shaped(state.reference, s.batch, s.heads, s.t_q);
  const View<float, 3> sum = shaped(state.sum, s.batch, s.heads, s.t_q);
  const bool direct = p.out.data() == nullptr;
  const View<float, 3> concat = shaped(state.concat, s.batch, s.t_q, s.heads * s.d_v);
  attention_forward(state.attention, {options.mask, options.scale, options.workspace},
                    heads_of(concat, 0, s.heads, s.d_v), {reference, sum});
  if (!direct) return project(concat, p.out, p.out_bias, y, options.workspace);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t t = 0; t < s.t_q; ++t) std::copy_n(&concat(b, t, 0), s.out, &y(b, t, 0));
  }
}

void multihead_backward(const MultiHeadInputs& in, const MultiHeadParameters<const float>& p,
                        const MultiHeadOptions& options, MultiHeadState& state, View<const float, 3> d_y,
                        const MultiHeadGradients& gradients) {
  constexpr const char* kName = "multihead_backward";
  const Sizes s = check_layer(kName, in, p, options);
  check(d_y.shape() == Shape<3>{s.batch, s.t_q, s.out}, kName, "d_y has shape ", d_y.shape(), ", expected ",
        Shape<3>{s.batch, s.t_q, s.out});
  check_input(kName, "d_y", d_y, s.out);
  check_gradients(kName, in, p, gradients);
  check(state.concat.shape() == std::vector<int64_t>{s.batch, s.t_q, s.heads * s.d_v} && state.fused == can_fuse(in, p),
        kName, "the state is not that of multihead_forward with these inputs: call it first");
  const View<const float, 3> concat = std::as_const(state.concat).view<3>();
  const MultiHeadParameters<float>& d_p = gradients.parameters;
  Workspace* const workspace = options.workspace;

  View<const float, 3> d_concat = d_y;
  if (p.out.data() != nullptr) {
    const View<float, 3> made = shaped(state.d_concat, s.batch, s.t_q, s.heads * s.d_v);
    project_backward(concat, p.out, d_y, {made, false, d_p.out, d_p.out_bias}, workspace);
    d_concat = made;
  }
  const Projections d_made = projections(state.d_projections, state.fused, s);
  attention_backward(state.attention, {options.mask, options.scale, workspace},
                     {heads_of(concat, 0, s.heads, s.d_v),
                      {state.reference.view<3>(), state.sum.view<3>()},
                      heads_of(d_concat, 0, s.heads, s.d_v)},
                     {d_made.heads[0], d_made.heads[1], d_made.heads[2]});

  const bool one_gradient =
      same_view<3>(gradients.query, gradients.key) && same_view<3>(gradients.query, gradients.value);
  if (state.fused && one_gradient && follows(d_p.q, d_p.k) && follows(d_p.k, d_p.v) &&
      follows(d_p.q_bias, d_p.k_bias) && follows(d_p.k_bias, d_p.v_bias)) {
    const View<const float, 2> weight = all_rows(p);
    return project_backward(in.query, weight, d_made.rows[0],
                            {gradients.query, false, all_rows(d_p), all_biases(d_p, weight.size(0))}, workspace);
  }
  const auto rows_of = [](View<float, 4> heads) {
    return View<const float, 3>(heads.data(), {heads.size(0), heads.size(1), heads.size(2) * heads.size(3)},
                                {heads.stride(0), heads.stride(1), 1});
  };
  // Views that are one tensor receive the sum.
  const bool key_adds = gradients.key.data() != nullptr && gradients.key.data() == gradients.query.data();
  const bool value_adds = gradients.value.data() != nullptr && (gradients.value.data() == gradients.query.data() ||
                                                                gradients.value.data() == gradients.key.data());
  project_backward(in.query, p.q, rows_of(d_made.heads[0]), {gradients.query, false, d_p.q, d_p.q_bias}, workspace);
  project_backward(in.key, p.k, rows_of(d_made.heads[1]), {gradients.key, key_adds, d_p.k, d_p.k_bias}, workspace);
  project_backward(in.value, p.v, rows_of(d_made.heads[2]), {gradients.value, value_adds, d_p.v, d_p.v_bias},
                   workspace);
}

}  // namespace heed
