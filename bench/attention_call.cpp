#include "bench/attention_call.h"

#include <algorithm>
#include <vector>

#include "bench/attention_cases.h"
#include "heed/core/rng.h"

namespace heed::bench {
namespace {

// [B, T, H, D], stored in the order of the layout.
Tensor make_tensor(const std::string& layout, int64_t batch, int64_t length, int64_t heads, int64_t dim) {
  return layout == "bhtd" ? Tensor({batch, heads, length, dim}) : Tensor({batch, length, heads, dim});
}

View<float, 4> view_of(const std::string& layout, Tensor& tensor) {
  return layout == "bhtd" ? tensor.view<4>().permuted({0, 2, 1, 3}) : tensor.view<4>();
}

}  // namespace

AttentionCall::AttentionCall(const AttentionSizes& sizes, bool with_backward)
    : sizes_(sizes), inputs_(make_projections()) {
  options_.mask = mask_of(sizes);
  options_.arena = &arena_;
  use_option(with_backward);
  Rng(1).fill_normal(inputs_.q.values());
  Rng(2).fill_normal(inputs_.k.values());
  Rng(3).fill_normal(inputs_.v.values());
  out_ = make_tensor(sizes.layout, sizes.batch, sizes.t_q, sizes.heads, sizes.dim);
  out_view_ = view_of(sizes.layout, out_);
  shift_ = Tensor({sizes.batch, sizes.heads, sizes.t_q});
  sum_ = Tensor({sizes.batch, sizes.heads, sizes.t_q});
  if (!with_backward) return;
  gradients_ = make_projections();
  d_out_ = make_tensor(sizes.layout, sizes.batch, sizes.t_q, sizes.heads, sizes.dim);
  d_out_view_ = view_of(sizes.layout, d_out_);
  Rng(4).fill_normal(d_out_.values());
}

AttentionCall::Projections AttentionCall::make_projections() const {
  Projections result;
  if (sizes_.layout == "qkv") {
    result.q = Tensor({sizes_.batch, sizes_.t_q, sizes_.heads + 2 * sizes_.kv_heads, sizes_.dim});
    const View<float, 4> all = result.q.view<4>();
    result.q_view = all.slice(2, 0, sizes_.heads);
    result.k_view = all.slice(2, sizes_.heads, sizes_.kv_heads);
    result.v_view = all.slice(2, sizes_.heads + sizes_.kv_heads, sizes_.kv_heads);
    return result;
  }
  result.q = make_tensor(sizes_.layout, sizes_.batch, sizes_.t_q, sizes_.heads, sizes_.dim);
  result.k = make_tensor(sizes_.layout, sizes_.batch, sizes_.t_k, sizes_.kv_heads, sizes_.dim);
  result.v = make_tensor(sizes_.layout, sizes_.batch, sizes_.t_k, sizes_.kv_heads, sizes_.dim);
  result.q_view = view_of(sizes_.layout, result.q);
  result.k_view = view_of(sizes_.layout, result.k);
  result.v_view = view_of(sizes_.layout, result.v);
  return result;
}

// The option of the case, with usual values; backward computes its gradient.
void AttentionCall::use_option(bool with_backward) {
  ScoreOptions& scores = options_.scores;
  const std::string& option = sizes_.option;
  const auto make = [&](const std::vector<int64_t>& shape) {
    option_ = Tensor(shape);
    Rng(5).fill_normal(option_.values());
    if (with_backward) d_option_ = Tensor(shape);
  };
  if (option == "cap") scores.soft_cap = 50.0F;
  if (option == "sigmoid") scores.normaliser = Normaliser::sigmoid;
  if (option == "dropout") scores.dropout.probability = 0.1F;
  if (option == "alibi") {
    make({sizes_.heads});
    std::ranges::copy(alibi_slopes(sizes_.heads), option_.values().begin());
    scores.alibi_slopes = option_.view<1>();
    if (with_backward) score_gradients_.d_alibi_slopes = d_option_.view<1>();
  }
  if (option == "sink") {
    make({sizes_.heads});
    scores.sinks = option_.view<1>();
    if (with_backward) score_gradients_.d_sinks = d_option_.view<1>();
  }
  if (option == "table") {
    make({32, sizes_.heads});
    scores.relative.table = option_.view<2>();
    if (with_backward) score_gradients_.d_relative_table = d_option_.view<2>();
  }
  if (option == "bias") {
    make({1, sizes_.heads, sizes_.t_q, sizes_.t_k});
    scores.bias = option_.view<4>();
    if (with_backward) score_gradients_.d_bias = d_option_.view<4>();
  }
}

RowStates<float> AttentionCall::rows() {
  if (sizes_.option == "sigmoid") return {};
  return {shift_.view<3>(), sum_.view<3>()};
}

void AttentionCall::forward() { attention_forward(inputs(), options_, out_view_, rows()); }

void AttentionCall::backward() {
  attention_backward(inputs(), options_, {out_view_, rows(), d_out_view_},
                     {gradients_.q_view, gradients_.k_view, gradients_.v_view, score_gradients_});
}

void AttentionCall::insight() {
  const RowStates<float> rows{shift_.view<3>(), sum_.view<3>()};
  if (top_keys_.empty()) {
    entropy_ = largest_ = Tensor(sum_.shape());
    top_weights_ = Tensor({sizes_.batch, sizes_.heads, sizes_.t_q, kTopKeys});
    top_keys_.resize(top_weights_.values().size());
  }
  const View<float, 4> weights = top_weights_.view<4>();
  attention_row_insight(inputs(), options_, rows, 0,
                        {entropy_.view<3>(), largest_.view<3>(), {top_keys_.data(), weights.shape()}, weights});
}

}  // namespace heed::bench
