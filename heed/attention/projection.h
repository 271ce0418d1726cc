// The linear maps around attention, as heed/ops/linear.h takes them, and three of them as one where their weights lie
// in one matrix; and the tokens that go through them. Internal to heed.
#pragma once

#include "heed/attention/multihead.h"
#include "heed/ops/linear.h"

namespace heed {

struct Projections {
  LinearParameters q, k, v, out;
  LinearParameters qkv;  // q, k and v as one map, where their parameters lie in one matrix

  template <class Visit>
  void visit(Visit&& each) const {
    each("q", q), each("k", k), each("v", v), each("out", out);
  }

  bool rounded() const {
    bool any = false;
    visit([&](const char*, const LinearParameters& map) { any = any || map.rounded(); });
    return any;
  }
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

// [B, T, H·D] as [B, T, H, D].
template <class T>
View<T, 4> heads_of(View<T, 3> view, int64_t heads, int64_t width) {
  return {view.data(), {view.size(0), view.size(1), heads, width}, {view.stride(0), view.stride(1), width, 1}};
}

// Refuses tokens whose rows, over all items, are not the rows of one matrix; and those of another shape.
void check_even_rows(const char* function, const char* name, View<const float, 3> view);
void check_tokens(const char* function, const char* name, View<const float, 3> view, const Shape<3>& expected);

// The tensor with this shape; its memory is kept where it has it already.
bool has_shape(const Tensor& tensor, const Shape<3>& shape);
View<float, 3> shaped(Tensor& tensor, const Shape<3>& shape);

// to = map(from), token by token.
void project_tokens(View<const float, 3> from, const LinearParameters& map, View<float, 3> to, Arena* arena);

// y = concat W_Oᵀ + b_O + residual (which may be null), or the heads as they are where there is no W_O.
void project_heads(View<const float, 3> concat, const LinearParameters& out, View<float, 3> y,
                   View<const float, 3> residual, Arena* arena);

}  // namespace heed
