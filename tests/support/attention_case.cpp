#include "tests/support/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "heed/attention/reference.h"
#include "heed/core/rng.h"

namespace heed::test {
namespace {

std::vector<double> doubles_of(View<const float, 4> view) {
  const std::vector<float> values = values_of(view);
  return {values.begin(), values.end()};
}

// visit(element) in row-major order.
template <class T, int N, class Visit>
void for_each_element(View<T, N> view, Visit visit) {
  const int64_t count = view.count();
  for (int64_t i = 0; i < count; ++i) {
    int64_t rest = i;
    T* at = view.data();
    for (int d = N - 1; d >= 0; --d) {
      at += rest % view.size(d) * view.stride(d);
      rest /= view.size(d);
    }
    visit(*at);
  }
}

template <int N>
std::vector<float> flatten(View<const float, N> view) {
  std::vector<float> values;
  values.reserve(static_cast<size_t>(view.count()));
  for_each_element(view, [&](float value) { values.push_back(value); });
  return values;
}

void set_nan(float& value) { value = std::numeric_limits<float>::quiet_NaN(); }

// Σ |terms| of d_q and d_k, see ReferenceResult.
void sum_terms(const reference::Inputs<double>& in, View<const double, 4> d_out, ReferenceResult& result) {
  const MaskSizes sizes = in.sizes();
  std::vector<double> of_keys(static_cast<size_t>(in.k.count()));
  const View<double, 4> k_terms(of_keys.data(), in.k.shape());
  for (int64_t b = 0; b < sizes.batch; ++b) {
    for (int64_t head = 0; head < sizes.heads; ++head) {
      for (int64_t i = 0; i < sizes.t_q; ++i) {
        const reference::Row<double> row = reference::score_row(in, b, head, i);
        std::vector<double> q_terms(static_cast<size_t>(in.q.size(3)));
        for (int64_t j = 0; j < sizes.t_k; ++j) {
          double d_weight = 0.0;
          for (int64_t d = 0; d < in.v.size(3); ++d) {
            d_weight += std::abs(d_out(b, i, head, d) * in.v(b, j, in.kv_head(head), d));
          }
          const double term = std::abs(in.scale) * row.weights[static_cast<size_t>(j)] * d_weight;
          for (int64_t d = 0; d < in.q.size(3); ++d) {
            q_terms[static_cast<size_t>(d)] += term * std::abs(in.k(b, j, in.kv_head(head), d));
            k_terms(b, j, in.kv_head(head), d) += term * std::abs(in.q(b, i, head, d));
          }
        }
        for (const double terms : q_terms) result.d_q_terms = std::max(result.d_q_terms, terms);
      }
    }
  }
  for (const double terms : of_keys) result.d_k_terms = std::max(result.d_k_terms, terms);
}

}  // namespace

std::string AttentionSizes::to_text() const {
  return "B=" + std::to_string(batch) + " Tq=" + std::to_string(t_q) + " Tk=" + std::to_string(t_k) +
         " H=" + std::to_string(heads) + " Hkv=" + std::to_string(kv_heads) + " Dk=" + std::to_string(d_k) +
         " Dv=" + std::to_string(d_v);
}

AttentionCase::AttentionCase(const AttentionSizes& s, Layout layout, uint64_t seed) : sizes(s) {
  tensors_.reserve(16);
  if (layout == Layout::fused_qkv && s.t_q == s.t_k) {
    const int64_t row = (s.heads + s.kv_heads) * s.d_k + s.kv_heads * s.d_v;
    Tensor& fused = tensors_.emplace_back(std::vector<int64_t>{s.batch, s.t_q, row});
    Rng(seed).fill_normal(fused.values());
    const auto part = [&](int64_t offset, int64_t heads, int64_t width) {
      return View<float, 4>(fused.values().data() + offset, {s.batch, s.t_q, heads, width},
                            {s.t_q * row, row, width, 1});
    };
    q = part(0, s.heads, s.d_k);
    k = part(s.heads * s.d_k, s.kv_heads, s.d_k);
    v = part((s.heads + s.kv_heads) * s.d_k, s.kv_heads, s.d_v);
  } else {
    q = make(s.t_q, s.heads, s.d_k, layout, seed + 1);
    k = make(s.t_k, s.kv_heads, s.d_k, layout, seed + 2);
    v = make(s.t_k, s.kv_heads, s.d_v, layout, seed + 3);
  }
  d_out = make(s.t_q, s.heads, s.d_v, layout, seed + 4);
  out = make(s.t_q, s.heads, s.d_v, layout, 0);
  d_q = make(s.t_q, s.heads, s.d_k, layout, 0);
  d_k = make(s.t_k, s.kv_heads, s.d_k, layout, 0);
  d_v = make(s.t_k, s.kv_heads, s.d_v, layout, 0);
  Tensor& reference = tensors_.emplace_back(std::vector<int64_t>{s.batch, s.heads, s.t_q});
  rows.reference = reference.view<3>();
  Tensor& sum = tensors_.emplace_back(std::vector<int64_t>{s.batch, s.heads, s.t_q});
  rows.sum = sum.view<3>();
}

// Seed 0 marks a result: filled with NaN, so that what is not written shows.
View<float, 4> AttentionCase::make(int64_t length, int64_t heads, int64_t width, Layout layout, uint64_t seed) {
  const bool heads_first = layout == Layout::bhtd;
  Tensor& tensor = tensors_.emplace_back(heads_first ? std::vector<int64_t>{sizes.batch, heads, length, width}
                                                     : std::vector<int64_t>{sizes.batch, length, heads, width});
  if (seed == 0) {
    std::fill(tensor.values().begin(), tensor.values().end(), std::numeric_limits<float>::quiet_NaN());
  } else {
    Rng(seed).fill_normal(tensor.values());
  }
  return heads_first ? tensor.view<4>().permuted({0, 2, 1, 3}) : tensor.view<4>();
}

void AttentionCase::forward() { attention_forward(inputs(), options, out, rows); }

void AttentionCase::backward() { attention_backward(inputs(), options, {out, rows, d_out}, {d_q, d_k, d_v}); }

void AttentionCase::clear_results() {
  for (const View<float, 4>& view : {out, d_q, d_k, d_v}) for_each_element(view, set_nan);
  for (const View<float, 3>& view : {rows.reference, rows.sum}) for_each_element(view, set_nan);
}

AttentionResults run(AttentionCase& c) {
  c.clear_results();
  c.forward();
  c.backward();
  return {values_of(c.out), values_of(c.rows.reference), values_of(c.rows.sum), values_of(c.d_q), values_of(c.d_k),
          values_of(c.d_v)};
}

ReferenceResult reference_result(const AttentionCase& c) {
  const std::vector<double> q = doubles_of(c.q);
  const std::vector<double> k = doubles_of(c.k);
  const std::vector<double> v = doubles_of(c.v);
  const std::vector<double> d_out = doubles_of(c.d_out);
  const double scale =
      c.options.scale ? static_cast<double>(*c.options.scale) : 1.0 / std::sqrt(static_cast<double>(c.sizes.d_k));
  const reference::Inputs<double> in{
      {q.data(), c.q.shape()}, {k.data(), c.k.shape()}, {v.data(), c.v.shape()}, c.options.mask, scale};
  ReferenceResult result;
  result.out.resize(d_out.size());
  result.log_sum_exp.resize(static_cast<size_t>(c.rows.sum.count()));
  result.d_q.resize(q.size());
  result.d_k.resize(k.size());
  result.d_v.resize(v.size());
  reference::forward<double>(in, {result.out.data(), c.out.shape()}, {result.log_sum_exp.data(), c.rows.sum.shape()});
  reference::backward<double>(
      in, {d_out.data(), c.d_out.shape()},
      {{result.d_q.data(), c.q.shape()}, {result.d_k.data(), c.k.shape()}, {result.d_v.data(), c.v.shape()}});
  sum_terms(in, {d_out.data(), c.d_out.shape()}, result);
  return result;
}

std::vector<float> values_of(View<const float, 4> view) { return flatten(view); }
std::vector<float> values_of(View<const float, 3> view) { return flatten(view); }

double relative_error(const std::vector<float>& a, const std::vector<double>& b, double least) {
  double most = least;
  double error = 0.0;
  for (size_t i = 0; i < b.size(); ++i) {
    if (!std::isfinite(a[i])) return std::numeric_limits<double>::infinity();
    most = std::max(most, std::abs(b[i]));
    error = std::max(error, std::abs(static_cast<double>(a[i]) - b[i]));
  }
  return error == 0.0 ? 0.0 : error / most;
}

bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

}  // namespace heed::test
