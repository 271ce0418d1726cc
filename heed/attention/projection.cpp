#include "heed/attention/projection.h"

#include <algorithm>

#include "heed/core/error.h"
#include "heed/core/extent.h"

namespace heed {
namespace {

LinearParameters map_of(const PackedMatrix& weight, const Tensor& bias) {
  return {{}, &weight, bias.count() == 0 ? View<const float, 1>() : bias.view<1>()};
}
LinearParameters map_of(View<const float, 2> weight, View<const float, 1> bias) { return {weight, nullptr, bias}; }

// Of plain parameters or packed ones.
template <class Parameters>
Projections maps_of(const Parameters& p) {
  return {map_of(p.q, p.q_bias), map_of(p.k, p.k_bias), map_of(p.v, p.v_bias), map_of(p.out, p.out_bias), {}};
}

// Do b's rows (or values) follow a's in memory?
bool follows(View<const float, 2> a, View<const float, 2> b) {
  return a.size(1) == b.size(1) && a.strides() == b.strides() && b.data() == a.data() + a.size(0) * a.stride(0);
}
bool follows(View<const float, 1> a, View<const float, 1> b) {
  if (a.data() == nullptr || b.data() == nullptr) return a.data() == b.data();
  return a.stride(0) == 1 && b.stride(0) == 1 && b.data() == a.data() + a.size(0);
}

}  // namespace

Projections projections_of(const PackedMultiHead& p) { return maps_of(p); }

bool lie_together(const MultiHeadParameters<const float>& p) {
  return follows(p.q, p.k) && follows(p.k, p.v) && follows(p.q_bias, p.k_bias) && follows(p.k_bias, p.v_bias);
}

Projections projections_of(const MultiHeadParameters<const float>& p) {
  Projections result = maps_of(p);
  if (lie_together(p)) {
    result.qkv.weight = all_weights(p);
    result.qkv.bias = all_biases(p, result.qkv.outputs());
  }
  return result;
}

void check_even_rows(const char* function, const char* name, View<const float, 3> view) {
  check(view.size(0) <= 1 || view.size(1) <= 1 || view.stride(0) == view.size(1) * view.stride(1), function, name,
        " has strides ", view.strides(), "; the rows of all items must be evenly spaced: copy it first");
}

void check_tokens(const char* function, const char* name, View<const float, 3> view, const Shape<3>& expected) {
  check_given(function, name, view);
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(function, name, view);
  check_even_rows(function, name, view);
}

bool has_shape(const Tensor& tensor, const Shape<3>& shape) {
  return std::equal(shape.begin(), shape.end(), tensor.shape().begin(), tensor.shape().end());
}

View<float, 3> shaped(Tensor& tensor, const Shape<3>& shape) {
  if (!has_shape(tensor, shape)) tensor = Tensor({shape.begin(), shape.end()});
  return tensor.view<3>();
}

void project_tokens(View<const float, 3> from, const LinearParameters& map, View<float, 3> to, Arena* arena) {
  linear_forward(tokens(from), map, tokens(to), {.arena = arena});
}

void project_heads(View<const float, 3> concat, const LinearParameters& out, View<float, 3> y,
                   View<const float, 3> residual, Arena* arena) {
  if (out.given()) {
    const View<const float, 2> added = residual.data() == nullptr ? View<const float, 2>() : tokens(residual);
    return linear_forward(tokens(concat), out, tokens(y), {.residual = added, .arena = arena});
  }
  for (int64_t b = 0; b < y.size(0); ++b) {
    for (int64_t t = 0; t < y.size(1); ++t) {
      for (int64_t c = 0; c < y.size(2); ++c) y(b, t, c) = concat(b, t, c);
    }
  }
}

}  // namespace heed
