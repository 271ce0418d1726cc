#include "tests/support/attention_case.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "heed/attention/reference.h"
#include "heed/core/rng.h"

namespace heed::test {
namespace {

template <int N>
std::vector<double> doubles_of(View<const float, N> view) {
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

// Σ |terms| of each gradient, see ReferenceResult.
class Terms {
 public:
  Terms(const reference::Inputs<double>& in, View<const double, 4> d_out, ReferenceResult& result)
      : in_(in), d_out_(d_out), result_(result), of_keys_(static_cast<size_t>(in.k.count())) {
    bias_.resize(result.d_bias.size());
    slopes_.resize(result.d_slopes.size());
    table_.resize(result.d_table.size());
    sinks_.resize(result.d_sinks.size());
    const MaskSizes sizes = in.sizes();
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t head = 0; head < sizes.heads; ++head) {
        for (int64_t i = 0; i < sizes.t_q; ++i) add_row(b, head, i);
      }
    }
    const auto most = [](const std::vector<double>& values) {
      return values.empty() ? 0.0 : *std::max_element(values.begin(), values.end());
    };
    result.d_k_terms = most(of_keys_);
    result.bias_terms = most(bias_);
    result.slope_terms = most(slopes_);
    result.table_terms = most(table_);
    result.sink_terms = most(sinks_);
  }

 private:
  void add_row(int64_t b, int64_t head, int64_t i) {
    const reference::Row<double> row = reference::score_row(in_, b, head, i);
    const int64_t kv = in_.kv_head(head);
    std::vector<double> d_weights(row.weights.size());
    double weighted = 0.0;
    for (size_t j = 0; j < d_weights.size(); ++j) {
      for (int64_t d = 0; d < in_.v.size(3); ++d) {
        d_weights[j] += row.kept[j] * std::abs(d_out_(b, i, head, d) * in_.v(b, static_cast<int64_t>(j), kv, d));
      }
      weighted += row.weights[j] * d_weights[j];
    }
    if (!sinks_.empty()) sinks_[static_cast<size_t>(head)] += row.sink_weight * weighted;
    std::vector<double> q_terms(static_cast<size_t>(in_.q.size(3)));
    const View<double, 4> k_terms(of_keys_.data(), in_.k.shape());
    for (int64_t j = 0; j < in_.k.size(1); ++j) {
      const auto at = static_cast<size_t>(j);
      if (!row.visible[at]) continue;
      // A dropped weight has no d_weight of its own, but takes part in the others'.
      const double masked = row.weights[at] * (row.kept[at] > 0.0 ? d_weights[at] : weighted);
      add_options(masked, b, head, i, j);
      const double term = std::abs(in_.scale) * masked;
      for (int64_t d = 0; d < in_.q.size(3); ++d) {
        q_terms[static_cast<size_t>(d)] += term * std::abs(in_.k(b, j, kv, d));
        k_terms(b, j, kv, d) += term * std::abs(in_.q(b, i, head, d));
      }
    }
    for (const double terms : q_terms) result_.d_q_terms = std::max(result_.d_q_terms, terms);
  }

  void add_options(double masked, int64_t b, int64_t head, int64_t i, int64_t j) {
    const int64_t distance = in_.distance(b, i, j);
    if (!bias_.empty()) {
      reference::bias_at(View<double, 4>(bias_.data(), in_.parameters.bias.shape()), b, head, i, j) += masked;
    }
    if (!slopes_.empty()) {
      slopes_[static_cast<size_t>(head)] += masked * static_cast<double>(std::abs(distance));
    }
    if (!table_.empty()) {
      table_[static_cast<size_t>(reference::bucket_of(in_, distance) * in_.q.size(2) + head)] += masked;
    }
  }

  const reference::Inputs<double>& in_;
  View<const double, 4> d_out_;
  ReferenceResult& result_;
  std::vector<double> of_keys_, bias_, slopes_, table_, sinks_;
};

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
  Tensor& shift = tensors_.emplace_back(std::vector<int64_t>{s.batch, s.heads, s.t_q});
  rows.shift = shift.view<3>();
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

bool AttentionCase::visible(int64_t b, int64_t head, int64_t query, int64_t key) const {
  const View<const float, 4>& bias = options.scores.bias;
  const bool kept = options.mask.visible({sizes.batch, sizes.heads, sizes.t_q, sizes.t_k}, b, head, query, key);
  return kept && (bias.data() == nullptr ||
                  reference::bias_at(bias, b, head, query, key) != -std::numeric_limits<float>::infinity());
}

void AttentionCase::forward() { attention_forward(inputs(), options, out, rows); }

// Gradients of parameters are added to what is there: 0 first, where a call would not refuse them.
static void zero_parameter_gradients(const ScoreGradients& gradients, const ScoreOptions& options) {
  try {
    gradients.check_fits("AttentionCase", options);
  } catch (const Error&) {
    return;
  }
  const auto zero = [](View<float, 1> values) {
    for (int64_t i = 0; values.data() != nullptr && i < values.size(0); ++i) values(i) = 0.0F;
  };
  zero(gradients.d_alibi_slopes);
  zero(gradients.d_sinks);
  const View<float, 2>& table = gradients.d_relative_table;
  for (int64_t i = 0; table.data() != nullptr && i < table.size(0); ++i) zero(table[i]);
}

void AttentionCase::backward() {
  zero_parameter_gradients(score_gradients, options.scores);
  attention_backward(inputs(), options, {out, rows, d_out}, {d_q, d_k, d_v, score_gradients});
}

void AttentionCase::clear_results() {
  for (const View<float, 4>& view : {out, d_q, d_k, d_v}) for_each_element(view, set_nan);
  for (const View<float, 3>& view : {rows.shift, rows.sum}) for_each_element(view, set_nan);
  const auto clear = [](auto view) {
    if (view.data() != nullptr) for_each_element(view, set_nan);
  };
  clear(score_gradients.d_bias.view);
  clear(score_gradients.d_alibi_slopes);
  clear(score_gradients.d_relative_table);
  clear(score_gradients.d_sinks);
}

AttentionResults run(AttentionCase& c) {
  c.clear_results();
  c.forward();
  c.backward();
  return {values_of(c.out), values_of(c.rows.shift), values_of(c.rows.sum),
          values_of(c.d_q), values_of(c.d_k),        values_of(c.d_v)};
}

// A view in double; null stays null.
template <int N>
View<const double, N> in_double(View<const float, N> view, std::vector<double>& values) {
  if (view.data() == nullptr) return {};
  values = doubles_of(view);
  return {values.data(), view.shape()};
}

// A gradient of `of`, as many zeros in `values`; null where there is none.
template <int N>
View<double, N> gradient_of(View<const double, N> of, std::vector<double>& values) {
  if (of.data() == nullptr) return {};
  values.assign(static_cast<size_t>(of.count()), 0.0);
  return {values.data(), of.shape()};
}

ReferenceInputs::ReferenceInputs(const AttentionCase& c) {
  const ScoreOptions& scores = c.options.scores;
  const double scale =
      c.options.scale ? static_cast<double>(*c.options.scale) : 1.0 / std::sqrt(static_cast<double>(c.sizes.d_k));
  in = {in_double<4>(c.q, q_),
        in_double<4>(c.k, k_),
        in_double<4>(c.v, v_),
        c.options.mask,
        scale,
        scores,
        {in_double(scores.bias, bias_), in_double(scores.alibi_slopes, slopes_),
         in_double(scores.relative.table, table_), in_double(scores.sinks, sinks_)}};
}

std::vector<double> reference_heads(const AttentionCase& c) {
  const ReferenceInputs inputs(c);
  std::vector<double> out(static_cast<size_t>(c.out.count()));
  reference::forward<double>(inputs.in, {out.data(), c.out.shape()});
  return out;
}

ReferenceResult reference_result(const AttentionCase& c) {
  const ReferenceInputs inputs(c);
  const reference::Inputs<double>& in = inputs.in;
  std::vector<double> d_out;
  const View<const double, 4> d_heads = in_double<4>(c.d_out, d_out);
  ReferenceResult result;
  result.out.resize(d_out.size());
  result.log_sum_exp.resize(static_cast<size_t>(c.rows.sum.count()));
  const reference::Gradients<double> gradients{
      gradient_of(in.q, result.d_q),
      gradient_of(in.k, result.d_k),
      gradient_of(in.v, result.d_v),
      {gradient_of(in.parameters.bias, result.d_bias), gradient_of(in.parameters.alibi_slopes, result.d_slopes),
       gradient_of(in.parameters.relative_table, result.d_table), gradient_of(in.parameters.sinks, result.d_sinks)}};
  reference::forward<double>(in, {result.out.data(), c.out.shape()}, {result.log_sum_exp.data(), c.rows.sum.shape()});
  reference::backward<double>(in, d_heads, gradients);
  Terms(in, d_heads, result);
  return result;
}

std::vector<float> values_of(View<const float, 4> view) { return flatten(view); }
std::vector<float> values_of(View<const float, 3> view) { return flatten(view); }
std::vector<float> values_of(View<const float, 2> view) { return flatten(view); }
std::vector<float> values_of(View<const float, 1> view) { return flatten(view); }

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
