// The linear maps around attention: c = a · weightᵀ + bias and its gradients, with plain or packed weights, and three
// of them as one where their weights lie in one matrix. Internal to heed/attention.
#pragma once

#include "heed/attention/multihead.h"

namespace heed {

// The parameters of one projection: a plain weight or a packed one.
struct Linear {
  View<const float, 2> weight;           // [outputs, inputs]
  const PackedMatrix* packed = nullptr;  // [inputs, outputs]
  View<const float, 1> bias;

  int64_t outputs() const { return packed != nullptr ? packed->columns() : weight.size(0); }
  int64_t inputs() const { return packed != nullptr ? packed->rows() : weight.size(1); }
  Shape<2> shape() const { return {outputs(), inputs()}; }
  bool given() const { return packed != nullptr ? outputs() > 0 : weight.data() != nullptr; }
  bool rounded() const { return packed != nullptr && packed->storage() == WeightStorage::bf16; }
};
struct Linears {
  Linear q, k, v, out;
  Linear qkv;  // q, k and v as one projection, where their parameters lie in one matrix

  bool rounded() const { return q.rounded() || k.rounded() || v.rounded() || out.rounded(); }
};

Linears linears_of(const MultiHeadParameters<const float>& parameters);
Linears linears_of(const PackedMultiHead& parameters);

// The weights of q, k and v, or their gradients, lie in one matrix, and their biases in one array.
bool lie_together(const MultiHeadParameters<const float>& parameters);

// That matrix, and that array of `rows` values.
template <class T>
View<T, 2> all_weights(const MultiHeadParameters<T>& p) {
  return {p.q.data(), {p.q.size(0) + p.k.size(0) + p.v.size(0), p.q.size(1)}, p.q.strides()};
}
template <class T>
View<T, 1> all_biases(const MultiHeadParameters<T>& p, int64_t rows) {
  return p.q_bias.data() == nullptr ? View<T, 1>() : View<T, 1>(p.q_bias.data(), {rows});
}

// c = a · weightᵀ + bias, for [B, T, C] whose rows are evenly spaced over all items.
void project(View<const float, 3> a, const Linear& linear, View<float, 3> c, Workspace* workspace);

// Where the gradients of a projection go; null views are not computed.
struct ProjectionGradients {
  View<float, 3> input;
  bool add_to_input = false;
  View<float, 2> weight;
  View<float, 1> bias;
};

// The gradients of c = a · weightᵀ + bias: d_a (+)= d_c · weight, d_weight = d_cᵀ · a, d_bias = Σ_tokens d_c.
void project_backward(View<const float, 3> a, View<const float, 2> weight, View<const float, 3> d_c,
                      const ProjectionGradients& gradients, Workspace* workspace);

}  // namespace heed
