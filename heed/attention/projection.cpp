#include "heed/attention/projection.h"

#include "heed/ops/matmul.h"

namespace heed {
namespace {

Linear packed_linear(const PackedMatrix& weight, const Tensor& bias) {
  return {{}, &weight, bias.count() == 0 ? View<const float, 1>() : bias.view<1>()};
}

// Do b's rows (or values) follow a's in memory?
bool follows(View<const float, 2> a, View<const float, 2> b) {
  return a.size(1) == b.size(1) && a.strides() == b.strides() && b.data() == a.data() + a.size(0) * a.stride(0);
}
bool follows(View<const float, 1> a, View<const float, 1> b) {
  if (a.data() == nullptr || b.data() == nullptr) return a.data() == b.data();
  return a.stride(0) == 1 && b.stride(0) == 1 && b.data() == a.data() + a.size(0);
}

// [B, T, C] with even rows as [B·T, C].
template <class T>
View<T, 2> tokens(View<T, 3> view) {
  const int64_t step = view.size(1) == 1 ? view.stride(0) : view.stride(1);
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}, {step, view.stride(2)}};
}

}  // namespace

Linears linears_of(const PackedMultiHead& p) {
  return {packed_linear(p.q, p.q_bias),
          packed_linear(p.k, p.k_bias),
          packed_linear(p.v, p.v_bias),
          packed_linear(p.out, p.out_bias),
          {}};
}

bool lie_together(const MultiHeadParameters<const float>& p) {
  return follows(p.q, p.k) && follows(p.k, p.v) && follows(p.q_bias, p.k_bias) && follows(p.k_bias, p.v_bias);
}

Linears linears_of(const MultiHeadParameters<const float>& p) {
  Linears result{
      {p.q, nullptr, p.q_bias}, {p.k, nullptr, p.k_bias}, {p.v, nullptr, p.v_bias}, {p.out, nullptr, p.out_bias}, {}};
  if (lie_together(p)) {
    result.qkv.weight = all_weights(p);
    result.qkv.bias = all_biases(p, result.qkv.outputs());
  }
  return result;
}

void project(View<const float, 3> a, const Linear& linear, View<float, 3> c, Workspace* workspace) {
  MatmulOptions options;
  options.bias = linear.bias;
  options.workspace = workspace;
  if (linear.packed != nullptr) return matmul(tokens(a), *linear.packed, tokens(c), options);
  matmul(tokens(a), linear.weight.transposed(), tokens(c), options);
}

void project_backward(View<const float, 3> a, View<const float, 2> weight, View<const float, 3> d_c,
                      const ProjectionGradients& gradients, Workspace* workspace) {
  MatmulOptions options;
  options.workspace = workspace;
  const View<const float, 2> d_rows = tokens(d_c);
  if (gradients.weight.data() != nullptr) matmul(d_rows.transposed(), tokens(a), gradients.weight, options);
  if (gradients.bias.data() != nullptr) {
    // A row of ones sums over the tokens, in matmul's order.
    const float one = 1.0F;
    const View<float, 1>& bias = gradients.bias;
    matmul({&one, {1, d_rows.size(0)}, {0, 0}}, d_rows, {bias.data(), {1, bias.size(0)}, {0, bias.stride(0)}}, options);
  }
  options.accumulate = gradients.add_to_input;
  if (gradients.input.data() != nullptr) matmul(d_rows, weight, tokens(gradients.input), options);
}

}  // namespace heed
