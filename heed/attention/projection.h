// The linear maps around attention, as heed/ops/linear.h takes them, and three of them as one where their weights lie
// in one matrix. Internal to heed/attention.
#pragma once

#include "heed/attention/multihead.h"
#include "heed/ops/linear.h"

namespace heed {

struct Projections {
  LinearParameters q, k, v, out;
  LinearParameters qkv;  // q, k and v as one map, where their parameters lie in one matrix

  bool rounded() const { return q.rounded() || k.rounded() || v.rounded() || out.rounded(); }
};

Projections projections_of(const MultiHeadParameters<const float>& parameters);
Projections projections_of(const PackedMultiHead& parameters);

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

// [B, T, C] as the rows of one matrix [B·T, C], over all items, where they are evenly spaced.
template <class T>
View<T, 2> tokens(View<T, 3> view) {
  const int64_t step = view.size(1) == 1 ? view.stride(0) : view.stride(1);
  return {view.data(), {view.size(0) * view.size(1), view.size(2)}, {step, view.stride(2)}};
}

}  // namespace heed
