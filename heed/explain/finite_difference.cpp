#include "heed/explain/finite_difference.h"

#include <algorithm>
#include <cmath>

namespace heed::explain {
namespace {

// Multiply-adds that the check of one gradient may take.
constexpr int64_t kBudget = 100'000'000;
// The most entries of one gradient that are checked.
constexpr int64_t kMostEntries = 4096;
constexpr double kStep = 1e-5;
// The most multiply-adds that the projections may take.
constexpr int64_t kMostProjection = 1'000'000'000;

std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }

// The nth index of a row-major shape.
std::vector<int64_t> index_of(const Tensor& tensor, const std::vector<int64_t>& first, int64_t n) {
  std::vector<int64_t> index(first.size());
  for (size_t i = index.size(); i-- > 0;) {
    index[i] = first[i] + n % tensor.shape()[i];
    n /= tensor.shape()[i];
  }
  return index;
}

}  // namespace

FiniteDifference::FiniteDifference(const AttendCase& given, const Tensor& d_out)
    : given_(given), d_out_(d_out), s_(sizes_of(given)) {
  const Layer& layer = given.layer;
  const int64_t tokens = s_.batch * (s_.t_q + 2 * s_.t_k);
  too_large_ = layer.given() && tokens * s_.heads * std::max(s_.d_k, s_.d_v) * given.x.shape()[2] > kMostProjection;
  if (too_large_) return;
  if (layer.given()) {
    const Tensor& keys = given.is_self() ? given.x : given.context;
    const MultiHeadParameters<const float> p = layer.parameters();
    project(given.x, p.q, p.q_bias, q_);
    project(keys, p.k, p.k_bias, k_);
    project(keys, p.v, p.v_bias, v_);
  } else {
    q_ = widened(given.q.values());
    k_ = widened(given.k.values());
    v_ = widened(given.v.values());
  }
  fill_inputs();
  fill_d_heads();
}

void FiniteDifference::fill_inputs() {
  const AttentionOptions options = options_of(given_, {0, s_.t_q});
  bias_ = widened(given_.bias.values());
  slopes_ = widened(given_.alibi_slopes.values());
  sinks_ = widened(given_.sinks.values());
  in_.q = {q_.data(), {s_.batch, s_.t_q, s_.heads, s_.d_k}};
  in_.k = {k_.data(), {s_.batch, s_.t_k, s_.kv_heads, s_.d_k}};
  in_.v = {v_.data(), {s_.batch, s_.t_k, s_.kv_heads, s_.d_v}};
  in_.mask = options.mask;
  in_.scale = given_.scale ? static_cast<double>(*given_.scale) : 1.0 / std::sqrt(static_cast<double>(s_.d_k));
  in_.options = options.scores;
  if (!bias_.empty()) in_.parameters.bias = {bias_.data(), given_.bias.view<4>().shape()};
  if (!slopes_.empty()) in_.parameters.alibi_slopes = {slopes_.data(), {s_.heads}};
  if (!sinks_.empty()) in_.parameters.sinks = {sinks_.data(), {s_.heads}};
}

// d_heads = d_out W_O
void FiniteDifference::fill_d_heads() {
  if (given_.layer.out.count() == 0) {
    d_heads_ = widened(d_out_.values());
    return;
  }
  const View<const float, 2> w = given_.layer.out.view<2>();
  const int64_t width = s_.heads * s_.d_v;
  d_heads_.assign(static_cast<size_t>(s_.batch * s_.t_q * width), 0.0);
  for (int64_t t = 0; t < s_.batch * s_.t_q; ++t) {
    double* row = d_heads_.data() + t * width;
    for (int64_t c = 0; c < w.size(0); ++c) {
      const double d = static_cast<double>(d_out_.values()[static_cast<size_t>(t * w.size(0) + c)]);
      for (int64_t i = 0; i < width; ++i) row[i] += d * static_cast<double>(w(c, i));
    }
  }
}

// tokens [B, T, C] · weightᵀ + bias → [B, T, outputs]
void FiniteDifference::project(const Tensor& tokens, View<const float, 2> w, View<const float, 1> bias,
                               std::vector<double>& to) const {
  const int64_t count = tokens.shape()[0] * tokens.shape()[1];
  for (int64_t t = 0; t < count; ++t) {
    const float* token = tokens.values().data() + t * w.size(1);
    for (int64_t o = 0; o < w.size(0); ++o) {
      double sum = bias.data() != nullptr ? static_cast<double>(bias(o)) : 0.0;
      for (int64_t c = 0; c < w.size(1); ++c) sum += static_cast<double>(token[c]) * static_cast<double>(w(o, c));
      to.push_back(sum);
    }
  }
}

double FiniteDifference::loss(const Part& part) const {
  double total = 0.0;
  for (int64_t b = part.b_begin; b < part.b_end; ++b) {
    for (int64_t h = part.h_begin; h < part.h_end; ++h) {
      for (int64_t i = part.i_begin; i < part.i_end; ++i) {
        const reference::Row<double> row = reference::score_row(in_, b, h, i);
        const double* d_head = &d_heads_[static_cast<size_t>(((b * s_.t_q + i) * s_.heads + h) * s_.d_v)];
        for (int64_t j = 0; j < s_.t_k; ++j) {
          if (!row.visible[static_cast<size_t>(j)]) continue;
          double dot = 0.0;
          for (int64_t d = 0; d < s_.d_v; ++d) dot += d_head[d] * in_.v(b, j, in_.kv_head(h), d);
          total += row.weights[static_cast<size_t>(j)] * dot;
        }
      }
    }
  }
  return total;
}

double FiniteDifference::slope(const std::vector<Move>& moves, const Part& part) const {
  std::vector<double> before;
  before.reserve(moves.size());
  for (const Move& each : moves) before.push_back(*each.at);
  const auto moved_loss = [&](double step) {
    for (size_t n = 0; n < moves.size(); ++n) *moves[n].at = before[n] + step * moves[n].factor;
    return loss(part);
  };
  const double difference = (moved_loss(kStep) - moved_loss(-kStep)) / (2.0 * kStep);
  for (size_t n = 0; n < moves.size(); ++n) *moves[n].at = before[n];
  return difference;
}

// weights are not a variable of the reference: L is linear in them, row by row.
double FiniteDifference::slope_of_weight(int64_t b, int64_t h, int64_t i, int64_t j) const {
  const reference::Row<double> row = reference::score_row(in_, b, h, i);
  if (!row.visible[static_cast<size_t>(j)]) return 0.0;  // not a variable: 0 for any scores
  const double* d_head = &d_heads_[static_cast<size_t>(((b * s_.t_q + i) * s_.heads + h) * s_.d_v)];
  const auto moved_loss = [&](double step) {
    double total = 0.0;
    for (int64_t d = 0; d < s_.d_v; ++d) {
      double head = 0.0;
      for (int64_t n = 0; n < s_.t_k; ++n) {
        if (!row.visible[static_cast<size_t>(n)]) continue;
        head += (row.weights[static_cast<size_t>(n)] + (n == j ? step : 0.0)) * in_.v(b, n, in_.kv_head(h), d);
      }
      total += d_head[d] * head;
    }
    return total;
  };
  return (moved_loss(kStep) - moved_loss(-kStep)) / (2.0 * kStep);
}

// out = concat W_O: the column `out` of it alone moves.
double FiniteDifference::slope_of_w_o(int64_t in, int64_t out) const {
  const View<const float, 2> w = given_.layer.out.view<2>();
  const auto moved_loss = [&](double step) {
    double total = 0.0;
    for (int64_t t = 0; t < s_.batch * s_.t_q; ++t) {
      double y = 0.0;
      for (int64_t c = 0; c < w.size(1); ++c) {
        y +=
            concat_[static_cast<size_t>(t * w.size(1) + c)] * (static_cast<double>(w(out, c)) + (c == in ? step : 0.0));
      }
      total += static_cast<double>(d_out_.values()[static_cast<size_t>(t * w.size(0) + out)]) * y;
    }
    return total;
  };
  return (moved_loss(kStep) - moved_loss(-kStep)) / (2.0 * kStep);
}

// Moving W[in][out] by h moves column `out` of every token's projection by h · token[in].
std::vector<FiniteDifference::Move> FiniteDifference::moves_of_column(std::vector<double>& projected,
                                                                      const Tensor& tokens, int64_t in,
                                                                      int64_t out) const {
  const int64_t count = tokens.shape()[0] * tokens.shape()[1];
  const int64_t width = static_cast<int64_t>(projected.size()) / std::max<int64_t>(1, count);
  std::vector<Move> moves;
  for (int64_t t = 0; t < count; ++t) {
    const double factor = static_cast<double>(tokens.values()[static_cast<size_t>(t * tokens.shape()[2] + in)]);
    moves.push_back({&projected[static_cast<size_t>(t * width + out)], factor});
  }
  return moves;
}

FiniteDifference::Part FiniteDifference::heads_of(int64_t kv_head) const {
  return {0, s_.batch, kv_head * s_.group(), (kv_head + 1) * s_.group(), 0, s_.t_q};
}

double FiniteDifference::slope_at(const Recording& recording, int64_t entry) {
  const std::vector<int64_t> at = index_of(recording.values, recording.first, entry);
  const AttentionStep step = step_of_gradient(recording.name);
  const Tensor& keys = given_.is_self() ? given_.x : given_.context;
  if (step == AttentionStep::weights) return slope_of_weight(at[0], at[1], at[2], at[3]);
  if (step == AttentionStep::w_o) return slope_of_w_o(at[0], at[1]);
  if (step == AttentionStep::w_q) {
    const int64_t h = at[1] / s_.d_k;
    return slope(moves_of_column(q_, given_.x, at[0], at[1]), {0, s_.batch, h, h + 1, 0, s_.t_q});
  }
  if (step == AttentionStep::w_k) return slope(moves_of_column(k_, keys, at[0], at[1]), heads_of(at[1] / s_.d_k));
  if (step == AttentionStep::w_v) return slope(moves_of_column(v_, keys, at[0], at[1]), heads_of(at[1] / s_.d_v));
  const auto flat = [&](const View<const double, 4>& view) {
    return static_cast<size_t>(((at[0] * view.size(1) + at[1]) * view.size(2) + at[2]) * view.size(3) + at[3]);
  };
  if (step == AttentionStep::q) {
    return slope({{&q_[flat(in_.q)]}}, {at[0], at[0] + 1, at[2], at[2] + 1, at[1], at[1] + 1});
  }
  Part part = heads_of(at[2]);
  part.b_begin = at[0];
  part.b_end = at[0] + 1;
  return slope({{step == AttentionStep::k ? &k_[flat(in_.k)] : &v_[flat(in_.v)]}}, part);
}

// Multiply-adds of one slope.
int64_t FiniteDifference::cost(AttentionStep step) const {
  const int64_t row = 2 * s_.t_k * (s_.d_k + s_.d_v);
  switch (step) {
    case AttentionStep::q:
    case AttentionStep::weights:
      return row;
    case AttentionStep::w_o:
      return 2 * s_.batch * s_.t_q * s_.heads * s_.d_v;
    case AttentionStep::w_q:
      return row * s_.batch * s_.t_q;
    case AttentionStep::k:
    case AttentionStep::v:
      return row * s_.t_q * s_.group();
    default:  // W_K and W_V
      return row * s_.t_q * s_.group() * s_.batch;
  }
}

void FiniteDifference::fill_concat() {
  concat_.clear();
  for (int64_t b = 0; b < s_.batch; ++b) {
    for (int64_t i = 0; i < s_.t_q; ++i) {
      for (int64_t h = 0; h < s_.heads; ++h) {
        const reference::Row<double> row = reference::score_row(in_, b, h, i);
        for (int64_t d = 0; d < s_.d_v; ++d) {
          double head = 0.0;
          for (int64_t j = 0; j < s_.t_k; ++j) {
            const auto at = static_cast<size_t>(j);
            if (row.visible[at]) head += row.weights[at] * in_.v(b, j, in_.kv_head(h), d);
          }
          concat_.push_back(head);
        }
      }
    }
  }
}

Gradient FiniteDifference::checked(Recording recording) {
  Gradient result{std::move(recording), {}, 0};
  const Tensor& values = result.recording.values;
  const AttentionStep step = step_of_gradient(result.recording.name);
  const int64_t affordable = kBudget / std::max<int64_t>(1, cost(step));
  const int64_t entries = too_large_ ? 0 : std::min({values.count(), affordable, kMostEntries});
  if (step == AttentionStep::w_o && entries > 0) fill_concat();
  for (int64_t n = 0; n < entries; ++n) {
    const int64_t entry = entries == 1 ? 0 : n * (values.count() - 1) / (entries - 1);
    const double expected = slope_at(result.recording, entry);
    const double got = static_cast<double>(values.values()[static_cast<size_t>(entry)]);
    if (!std::isfinite(expected) && !std::isfinite(got)) continue;
    const double difference = std::isfinite(got - expected) ? std::abs(got - expected) : INFINITY;
    result.finite_difference_error = std::max(result.finite_difference_error.value_or(0.0), difference);
    ++result.checked;
  }
  return result;
}

}  // namespace heed::explain
