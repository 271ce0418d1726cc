#include "heed/explain/attend_checks.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "heed/attention/insight.h"
#include "heed/attention/reference_row.h"
#include "heed/attention/trace_steps.h"

namespace heed::explain {
namespace {

// Multiply-adds in double that a check may take.
constexpr int64_t kBudget = 300'000'000;

std::vector<double> widened(std::span<const float> values) { return {values.begin(), values.end()}; }

// The largest difference of finite values seen so far. What is not finite in both is equal.
class Difference {
 public:
  void see(float got, double expected) {
    if (!std::isfinite(static_cast<double>(got)) && !std::isfinite(expected)) return;
    double difference = std::abs(static_cast<double>(got) - expected);
    if (!std::isfinite(difference)) difference = INFINITY;
    most_ = seen_ ? std::max(most_, difference) : difference;
    seen_ = true;
  }
  std::optional<double> most() const { return seen_ ? std::optional<double>(most_) : std::nullopt; }

 private:
  bool seen_ = false;
  double most_ = 0.0;
};

// One item and head of q, k or v in double, [T, width]: projected from tokens, or widened from what attention had.
struct ExactHead {
  std::vector<double> values;
  int64_t width = 0;

  // The same numbers for every item and head, so that masks and options can be indexed by their own indices.
  View<const double, 4> for_all(int64_t batch, int64_t heads) const {
    return {values.data(), {batch, static_cast<int64_t>(values.size()) / width, heads, width}, {0, width, 0, 1}};
  }
};

ExactHead widened_head(const View<const float, 4>& tensor, int64_t b, int64_t head) {
  ExactHead made{{}, tensor.size(3)};
  made.values.reserve(static_cast<size_t>(tensor.size(1) * tensor.size(3)));
  for (int64_t t = 0; t < tensor.size(1); ++t) {
    for (int64_t d = 0; d < made.width; ++d) made.values.push_back(static_cast<double>(tensor(b, t, head, d)));
  }
  return made;
}

// Σ_c a[c] · w[c] + bias, in double.
double project(const float* a, const float* w, int64_t count, double bias) {
  double sum = 0.0;
  for (int64_t c = 0; c < count; ++c) sum += static_cast<double>(a[c]) * static_cast<double>(w[c]);
  return sum + bias;
}

// Tokens `rows` of item b times the columns of one head.
ExactHead projected_head(const Tensor& tokens, const QueryRange& rows, View<const float, 2> w,
                         View<const float, 1> bias, const TilePlace& place, int64_t width) {
  ExactHead made{{}, width};
  const View<const float, 3> x = tokens.view<3>();
  for (int64_t t = rows.begin; t < rows.end; ++t) {
    for (int64_t d = place.head * width; d < (place.head + 1) * width; ++d) {
      const double b = bias.data() != nullptr ? static_cast<double>(bias(d)) : 0.0;
      made.values.push_back(project(&x(place.b, t, 0), &w(d, 0), w.size(1), b));
    }
  }
  return made;
}

// Are all numbers of this row of heads finite?
bool is_finite(const View<const float, 4>& heads, const std::array<int64_t, 4>& row) {
  for (int64_t d = 0; d < heads.size(3); ++d) {
    if (!std::isfinite(heads(row[0], row[1], row[2], d))) return false;
  }
  return true;
}

// "item 1, head 0, row 3"; the item and the head where there are several.
std::string place_text(const AttendSizes& s, int64_t b, std::optional<int64_t> head, int64_t row) {
  std::string text = s.batch > 1 ? "item " + std::to_string(b) + ", " : "";
  if (head && s.heads > 1) text += "head " + std::to_string(*head) + ", ";
  return text + "row " + std::to_string(row);
}

// Counts the rows shown that are not finite: all of them, however many are checked against double.
void count_nonfinite(const AttendSizes& s, const AttendRun& run, std::optional<int64_t> head, AttendChecks& checks) {
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t h = head.value_or(0); h < (head ? *head + 1 : s.heads); ++h) {
      for (int64_t i = 0; i < run.rows.count(); ++i) {
        if (is_finite(run.heads, {b, i, h, 0})) continue;
        if (checks.rows_nonfinite++ == 0) checks.first_row_nonfinite = place_text(s, b, h, run.rows.begin + i);
      }
    }
  }
  if (head || run.out.data() == nullptr) return;
  int64_t count = 0;
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t i = 0; i < run.rows.count(); ++i) {
      const float* out = &run.out(b, i, 0);
      if (std::all_of(out, out + run.out.size(2), [](float each) { return std::isfinite(each); })) continue;
      ++count;
      if (checks.first_row_nonfinite.empty()) {
        checks.first_row_nonfinite = place_text(s, b, std::nullopt, run.rows.begin + i);
      }
    }
  }
  checks.out_rows_nonfinite = count;
}

class Checker {
 public:
  Checker(const AttendCase& given, const AttendRun& run, std::optional<int64_t> head)
      : given_(given), layer_(given.layer.parameters()), run_(run), head_(head), sizes_(sizes_of(given)) {
    const int64_t heads = head ? 1 : sizes_.heads;
    const int64_t projections = given.layer.given() ? sizes_.batch * heads * sizes_.t_k * (sizes_.d_k + sizes_.d_v) *
                                                          given.layer.in_shapes[1][1]
                                                    : 0;
    from_projections_ = given.layer.given() && projections <= kBudget;
    const int64_t row_cost = std::max<int64_t>(1, sizes_.batch * heads * sizes_.t_k * (sizes_.d_k + sizes_.d_v));
    rows_ = std::clamp<int64_t>(kBudget / row_cost, std::min<int64_t>(1, run.rows.count()), run.rows.count());
    bias_ = widened(given.bias.values());
    slopes_ = widened(given.alibi_slopes.values());
    sinks_ = widened(given.sinks.values());
  }

  void run(AttendChecks& checks) {
    for (int64_t b = 0; b < sizes_.batch; ++b) {
      concat_.assign(static_cast<size_t>(rows_ * sizes_.heads * sizes_.d_v), 0.0);
      for (int64_t h = 0; h < sizes_.heads; ++h) {
        if (!head_ || *head_ == h) check_head(b, h);
      }
      if (!head_ && from_projections_ && run_.out.data() != nullptr) check_out(b);
    }
    const int64_t heads = head_ ? 1 : sizes_.heads;
    checks.rows_checked = sizes_.batch * heads * rows_;
    checks.rows_shown = sizes_.batch * heads * run_.rows.count();
    checks.from_projections = from_projections_;
    checks.ref_max_abs_diff = against_reference_.most();
    if (!given_.sigmoid && given_.sinks.count() == 0) checks.row_sum_max_err = row_sums_.most();
  }

 private:
  // The nth of the rows checked, among those shown.
  int64_t row(int64_t n) const { return rows_ <= 1 ? 0 : n * (run_.rows.count() - 1) / (rows_ - 1); }

  ExactHead queries(const TilePlace& place) const {
    if (!from_projections_) return widened_head(run_.inputs.q, place.b, place.head);
    return projected_head(given_.x, run_.rows, layer_.q, layer_.q_bias, place, sizes_.d_k);
  }
  ExactHead keys(const TilePlace& place) const {
    if (!from_projections_) return widened_head(run_.inputs.k, place.b, place.head);
    const Tensor& from = given_.is_self() ? given_.x : given_.context;
    return projected_head(from, {0, sizes_.t_k}, layer_.k, layer_.k_bias, place, sizes_.d_k);
  }
  ExactHead values(const TilePlace& place) const {
    if (!from_projections_) return widened_head(run_.inputs.v, place.b, place.head);
    const Tensor& from = given_.is_self() ? given_.x : given_.context;
    return projected_head(from, {0, sizes_.t_k}, layer_.v, layer_.v_bias, place, sizes_.d_v);
  }

  // Keys and values of the head that `head` reads, kept for the heads of its group.
  void read_kv(const TilePlace& place) {
    if (place.b == kv_place_.b && place.head == kv_place_.head) return;
    k_ = keys(place);
    v_ = values(place);
    kv_place_ = place;
  }

  void check_head(int64_t b, int64_t h) {
    read_kv({b, h / sizes_.group(), 0, 0});
    const ExactHead q = queries({b, h, 0, 0});
    reference::Inputs<double> in;
    in.q = q.for_all(sizes_.batch, sizes_.heads);
    in.k = k_.for_all(sizes_.batch, sizes_.kv_heads);
    in.v = v_.for_all(sizes_.batch, sizes_.kv_heads);
    in.mask = run_.options.mask;
    in.scale = given_.scale ? static_cast<double>(*given_.scale) : 1.0 / std::sqrt(static_cast<double>(sizes_.d_k));
    in.options = run_.options.scores;
    if (!bias_.empty()) {
      const View<const float, 4> bias = given_.bias.view<4>();
      in.parameters.bias =
          View<const double, 4>(bias_.data(), bias.shape()).slice(2, run_.rows.begin, run_.rows.count());
    }
    if (!slopes_.empty()) in.parameters.alibi_slopes = {slopes_.data(), {sizes_.heads}};
    if (!sinks_.empty()) in.parameters.sinks = {sinks_.data(), {sizes_.heads}};
    Tensor weights({1, sizes_.t_k});
    for (int64_t n = 0; n < rows_; ++n) {
      const int64_t i = row(n);
      attention_tile(run_.inputs, run_.options, run_.states, AttentionStep::weights, {b, h, i, 0}, weights.view<2>());
      compare_row(reference::score_row(in, b, h, i), weights.values(), n);
    }
  }

  void compare_row(const reference::Row<double>& exact, std::span<const float> weights, int64_t n) {
    double sum = 0.0;
    bool sees = false;
    const bool finite = is_finite(run_.heads, {exact.b, row(n), exact.head, 0});
    for (size_t k = 0; k < weights.size(); ++k) {
      sum += static_cast<double>(weights[k]);
      sees = sees || exact.visible[k];
      against_reference_.see(weights[k], exact.weights[k]);
    }
    if (sees && finite) row_sums_.see(1.0F, sum);  // rows_nonfinite counts the others
    for (int64_t d = 0; d < sizes_.d_v; ++d) {
      double head = 0.0;
      for (size_t k = 0; k < weights.size(); ++k) {
        if (exact.visible[k])
          head += exact.weights[k] * v_.values[k * static_cast<size_t>(sizes_.d_v) + static_cast<size_t>(d)];
      }
      concat_[static_cast<size_t>((n * sizes_.heads + exact.head) * sizes_.d_v + d)] = head;
      against_reference_.see(run_.heads(exact.b, row(n), exact.head, d), head);
    }
  }

  void check_out(int64_t b) {
    const View<const float, 2> w = layer_.out;
    const View<const float, 1> bias = layer_.out_bias;
    for (int64_t n = 0; n < rows_; ++n) {
      for (int64_t c = 0; c < w.size(0); ++c) {
        double sum = bias.data() != nullptr ? static_cast<double>(bias(c)) : 0.0;
        for (int64_t d = 0; d < w.size(1); ++d) {
          sum += concat_[static_cast<size_t>(n * w.size(1) + d)] * static_cast<double>(w(c, d));
        }
        against_reference_.see(run_.out(b, row(n), c), sum);
      }
    }
  }

  const AttendCase& given_;
  MultiHeadParameters<const float> layer_;
  const AttendRun& run_;
  std::optional<int64_t> head_;
  AttendSizes sizes_;
  bool from_projections_ = false;
  int64_t rows_ = 0;  // checked, of those shown
  std::vector<double> bias_, slopes_, sinks_;
  ExactHead k_, v_;
  TilePlace kv_place_{-1, -1, 0, 0};
  std::vector<double> concat_;  // [rows_, H·Dv] of one item
  Difference against_reference_, row_sums_;
};

// Keys that a query sees.
int64_t visible_keys(const AttentionOptions& options, const MaskSizes& sizes, const KeyRange& range,
                     const TilePlace& row) {
  const bool dense = !options.mask.dense().empty() || options.scores.bias.data() != nullptr;
  if (!dense) return std::max<int64_t>(0, range.end - range.begin);
  int64_t count = 0;
  for (int64_t k = range.begin; k < range.end; ++k) {
    count += sees_key(options, sizes, {row.b, row.head, row.q, k}) ? 1 : 0;
  }
  return count;
}

// Counts the visible pairs and the rows that see no key, of the whole.
void count_keys(const AttendCase& given, AttendChecks& checks) {
  const AttendSizes s = sizes_of(given);
  const AttentionOptions options = options_of(given, {0, s.t_q});
  const MaskSizes sizes = s.mask();
  // A mask is the same for every head unless it is dense by head.
  bool by_head = options.scores.bias.data() != nullptr && options.scores.bias.size(1) > 1;
  for (const Mask::Dense& each : options.mask.dense()) by_head = by_head || each.values.size(1) > 1;
  const int64_t heads = by_head ? s.heads : 1;
  const int64_t times = s.heads / heads;
  checks.pairs = s.batch * s.heads * s.t_q * s.t_k;
  for (int64_t b = 0; b < s.batch; ++b) {
    const KeyRangeRule rule = options.mask.key_range_rule(sizes, b);
    for (int64_t h = 0; h < heads; ++h) {
      for (int64_t i = 0; i < s.t_q; ++i) {
        const int64_t visible = visible_keys(options, sizes, rule.at(i), {b, h, i, 0});
        checks.visible_pairs += times * visible;
        if (visible > 0) continue;
        if (checks.rows_without_key == 0) {
          checks.first_row_without_key = "row " + std::to_string(i);
          if (by_head) checks.first_row_without_key += " of head " + std::to_string(h);
          if (s.batch > 1) checks.first_row_without_key += " of item " + std::to_string(b);
        }
        checks.rows_without_key += times;
      }
    }
  }
}

}  // namespace

AttendChecks checks_of(const AttendCase& given, const AttendRun& run, std::optional<int64_t> head) {
  AttendChecks checks;
  count_nonfinite(sizes_of(given), run, head, checks);
  count_keys(given, checks);
  Checker(given, run, head).run(checks);
  return checks;
}

}  // namespace heed::explain
