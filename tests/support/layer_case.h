// A multi-head layer with its data.
#pragma once

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "heed/attention/multihead.h"
#include "heed/core/rng.h"
#include "heed/core/tensor.h"

namespace heed::test {

struct LayerSizes {
  int64_t batch = 2, t_q = 5, t_k = 7, c_q = 6, c_k = 4, c_v = 3, heads = 4, kv_heads = 2, d_k = 3, d_v = 2, c_out = 5;
  bool self = false;  // one input for all three; needs t_q == t_k and equal widths
  bool biases = true;
  bool w_o = true;

  int64_t rows(int i) const { return i == 0 ? heads * d_k : i == 1 ? kv_heads * d_k : kv_heads * d_v; }
  int64_t inputs(int i) const { return i == 0 ? c_q : i == 1 ? c_k : c_v; }
  int64_t out() const { return w_o ? c_out : heads * d_v; }
};

inline Tensor normal(std::vector<int64_t> shape, uint64_t seed, float deviation = 1.0F) {
  Tensor tensor(std::move(shape));
  Rng(seed).fill_normal(tensor.values(), deviation);
  return tensor;
}

// A layer with its data. in_proj holds W_Q, W_K and W_V one after the other where the widths are equal.
struct Layer {
  explicit Layer(const LayerSizes& sizes) : s(sizes) {
    for (int i = 0; i < 3; ++i) {
      const bool first = i == 0;
      x[i] = normal({s.batch, first ? s.t_q : s.t_k, s.inputs(i)}, 10 + static_cast<uint64_t>(i));
    }
    if (s.self) x[1] = x[2] = x[0];
    weight = normal({s.rows(0) * s.c_q + s.rows(1) * s.c_k + s.rows(2) * s.c_v}, 20, 0.5F);
    bias = normal({s.rows(0) + s.rows(1) + s.rows(2)}, 21, 0.5F);
    w_out = normal({s.c_out, s.heads * s.d_v}, 22, 0.5F);
    out_bias = normal({s.c_out}, 23, 0.5F);
    d_y = normal({s.batch, s.t_q, s.out()}, 24);
    y = Tensor({s.batch, s.t_q, s.out()});
    d_weight = Tensor(weight.shape());
    d_bias = Tensor(bias.shape());
    d_w_out = Tensor(w_out.shape());
    d_out_bias = Tensor(out_bias.shape());
    for (int i = 0; i < 3; ++i) d_x[i] = Tensor(x[i].shape());
    options.heads = s.heads;
    options.kv_heads = s.kv_heads;
  }

  template <class T, class Source>
  MultiHeadParameters<T> parameters(Source& w, Source& b, Source& wo, Source& bo) {
    MultiHeadParameters<T> p;
    T* at = w.values().data();
    T* bias_at = b.values().data();
    View<T, 2>* weights[3] = {&p.q, &p.k, &p.v};
    View<T, 1>* biases[3] = {&p.q_bias, &p.k_bias, &p.v_bias};
    for (int i = 0; i < 3; ++i) {
      *weights[i] = {at, {s.rows(i), s.inputs(i)}};
      if (s.biases) *biases[i] = {bias_at, {s.rows(i)}};
      at += s.rows(i) * s.inputs(i);
      bias_at += s.rows(i);
    }
    if (s.w_o) p.out = wo.template view<2>();
    if (s.w_o && s.biases) p.out_bias = bo.template view<1>();
    return p;
  }

  MultiHeadInputs inputs() {
    if (s.self) return MultiHeadInputs::self(x[0].view<3>());
    return {x[0].view<3>(), x[1].view<3>(), x[2].view<3>()};
  }

  MultiHeadParameters<const float> parameters() { return parameters<float>(weight, bias, w_out, out_bias); }

  // Backward adds to the gradients of parameters.
  void zero_parameter_gradients() {
    for (Tensor* sums : {&d_weight, &d_bias, &d_w_out, &d_out_bias}) std::ranges::fill(sums->values(), 0.0F);
  }

  MultiHeadGradients gradients() {
    MultiHeadGradients g;
    g.query = d_x[0].view<3>();
    g.key = d_x[s.self ? 0 : 1].view<3>();
    g.value = d_x[s.self ? 0 : 2].view<3>();
    g.parameters = parameters<float>(d_weight, d_bias, d_w_out, d_out_bias);
    return g;
  }

  void forward() { multihead_forward(inputs(), parameters(), options, state, y.view<3>()); }
  void backward() { multihead_backward(inputs(), parameters(), options, state, d_y.view<3>(), gradients()); }
  void run() {
    forward();
    zero_parameter_gradients();
    backward();
  }

  LayerSizes s;
  Tensor x[3], weight, bias, w_out, out_bias, d_y, y;
  Tensor d_x[3], d_weight, d_bias, d_w_out, d_out_bias;
  MultiHeadOptions options;
  MultiHeadState state;
};

// Self attention.
inline LayerSizes self_sizes() {
  LayerSizes sizes;
  sizes.self = true;
  sizes.t_k = sizes.t_q;
  sizes.c_k = sizes.c_v = sizes.c_q;
  return sizes;
}

inline std::vector<float> floats(View<const float, 3> view) {
  return {view.data(), view.data() + view.count()};
}  // contiguous
inline std::vector<float> floats(const Tensor& tensor) { return {tensor.values().begin(), tensor.values().end()}; }

}  // namespace heed::test
