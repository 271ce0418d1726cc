#include "heed/explain/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/explain/written.h"

namespace heed::explain {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

constexpr std::array<std::string_view, kStepCount> kNames = {
    "x",      "context", "W_Q",    "b_Q",    "q",      "W_K",     "b_K",   "k",      "W_V", "b_V", "v",
    "scores", "scaled",  "capped", "biased", "masked", "weights", "heads", "concat", "W_O", "b_O", "out"};

// A projection: input times weight, plus bias.
struct Projection {
  StepId input;
  StepId weight;
  StepId bias;
};

Projection projection_of(const StepValues& values, StepId step) {
  const StepId keys = values.has(StepId::context) ? StepId::context : StepId::x;
  switch (step) {
    case StepId::q:
      return {StepId::x, StepId::w_q, StepId::b_q};
    case StepId::k:
      return {keys, StepId::w_k, StepId::b_k};
    case StepId::v:
      return {keys, StepId::w_v, StepId::b_v};
    default:
      return {StepId::concat, StepId::w_o, StepId::b_o};
  }
}

bool is_projection(StepId step) {
  return step == StepId::q || step == StepId::k || step == StepId::v || step == StepId::out;
}

std::string shape_text(StepId step, const Matrices& matrices) {
  return std::string(step_name(step)) + " " + to_text(matrices.shape());
}

// A step of this size; `blamed` is refused where it would be too large.
Matrices sized(StepId blamed, int64_t count, int64_t rows, int64_t columns) {
  if (count * rows * columns > kMostNumbers) {  // factors are sizes of tensors in memory: the product cannot overflow
    throw StepError(blamed, "a step would have " + to_text(std::vector<int64_t>{count, rows, columns}) +
                                " numbers; the most is " + std::to_string(kMostNumbers));
  }
  return {count, rows, columns};
}

// input [T, C] · weight [C, N·D] + bias → N × [T, D]
Matrices project(const StepValues& values, const Projection& from, int64_t count) {
  const Matrices& input = values[from.input];
  const Matrices& weight = values[from.weight];
  const Matrices& bias = values[from.bias];
  if (input.columns != weight.rows) {
    throw StepError(from.weight, shape_text(from.input, input) + " times " + shape_text(from.weight, weight) +
                                     ": the weight needs " + std::to_string(input.columns) + " rows");
  }
  if (weight.columns % count != 0) {
    throw StepError(from.weight, std::to_string(count) + " heads do not divide the " + std::to_string(weight.columns) +
                                     " columns of " + std::string(step_name(from.weight)));
  }
  if (!bias.empty() && bias.columns != weight.columns) {
    throw StepError(from.bias, std::string(step_name(from.bias)) + " has " + std::to_string(bias.columns) +
                                   " numbers, " + shape_text(from.weight, weight) + " needs " +
                                   std::to_string(weight.columns));
  }
  Matrices result = sized(from.weight, count, input.rows, weight.columns / count);
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t i = 0; i < result.rows; ++i) {
      for (int64_t j = 0; j < result.columns; ++j) {
        const int64_t column = n * result.columns + j;
        double sum = bias.empty() ? 0.0 : bias.at(0, 0, column);
        for (int64_t c = 0; c < input.columns; ++c) sum += input.at(0, i, c) * weight.at(0, c, column);
        result.at(n, i, j) = sum;
      }
    }
  }
  return result;
}

int64_t kv_head(const StepRules& rules, int64_t head) { return head / (rules.heads / rules.kv_heads); }

// scores = q kᵀ
Matrices dot_products(const StepRules& rules, const Matrices& q, const Matrices& k) {
  if (q.columns != k.columns) {
    throw StepError(StepId::k, shape_text(StepId::q, q) + " and " + shape_text(StepId::k, k) +
                                   ": rows of q and k must be equally wide");
  }
  Matrices scores = sized(StepId::k, rules.heads, q.rows, k.rows);
  for (int64_t h = 0; h < rules.heads; ++h) {
    for (int64_t i = 0; i < q.rows; ++i) {
      for (int64_t j = 0; j < k.rows; ++j) {
        double sum = 0.0;
        for (int64_t d = 0; d < q.columns; ++d) sum += q.at(h, i, d) * k.at(kv_head(rules, h), j, d);
        scores.at(h, i, j) = sum;
      }
    }
  }
  return scores;
}

// heads = weights · v
Matrices mix_values(const StepRules& rules, const Matrices& weights, const Matrices& v) {
  if (weights.columns != v.rows) {
    throw StepError(StepId::v, shape_text(StepId::weights, weights) + " times " + shape_text(StepId::v, v) +
                                   ": v needs a row for each key");
  }
  Matrices heads = sized(StepId::v, rules.heads, weights.rows, v.columns);
  for (int64_t h = 0; h < rules.heads; ++h) {
    for (int64_t i = 0; i < heads.rows; ++i) {
      for (int64_t d = 0; d < heads.columns; ++d) {
        double sum = 0.0;
        for (int64_t j = 0; j < v.rows; ++j) sum += weights.at(h, i, j) * v.at(kv_head(rules, h), j, d);
        heads.at(h, i, d) = sum;
      }
    }
  }
  return heads;
}

Matrices side_by_side(const Matrices& heads) {
  Matrices concat(1, heads.rows, heads.count * heads.columns);
  for (int64_t h = 0; h < heads.count; ++h) {
    for (int64_t i = 0; i < heads.rows; ++i) {
      for (int64_t d = 0; d < heads.columns; ++d) concat.at(0, i, h * heads.columns + d) = heads.at(h, i, d);
    }
  }
  return concat;
}

// f(score, head, query, key) for every score.
template <class F>
Matrices each_score(const Matrices& scores, F f) {
  Matrices result = scores;
  for (int64_t h = 0; h < scores.count; ++h) {
    for (int64_t i = 0; i < scores.rows; ++i) {
      for (int64_t j = 0; j < scores.columns; ++j) result.at(h, i, j) = f(scores.at(h, i, j), h, i, j);
    }
  }
  return result;
}

// A matrix that is the same for all heads, or has one for each.
double broadcast(const Matrices& matrices, int64_t h, int64_t i, int64_t j) {
  return matrices.at(matrices.count == 1 ? 0 : h, i, j);
}

Matrices normalise(const StepRules& rules, const Matrices& scores) {
  Matrices weights = scores;
  for (int64_t h = 0; h < scores.count; ++h) {
    for (int64_t i = 0; i < scores.rows; ++i) {
      const std::vector<double> row = normalise_row(rules, h, &scores.values[scores.index(h, i, 0)], scores.columns);
      std::copy(row.begin(), row.end(), &weights.at(h, i, 0));
    }
  }
  return weights;
}

// What a step between q kᵀ and the weights makes of the step before it.
Matrices compute_score_step(const StepRules& rules, const StepValues& values, StepId step, const Matrices& before) {
  switch (step) {
    case StepId::scaled: {
      const std::optional<double> scale = scale_of(rules, values);
      if (!scale) return {};
      return each_score(before, [&](double s, auto...) { return *scale * s; });
    }
    case StepId::capped:
      return each_score(before, [&](double s, auto...) { return *rules.soft_cap * std::tanh(s / *rules.soft_cap); });
    case StepId::biased:
      return each_score(before, [&](double s, auto... at) { return s + broadcast(rules.bias, at...); });
    case StepId::masked:
      return each_score(before,
                        [&](double s, auto... at) { return broadcast(rules.visible, at...) != 0.0 ? s : kHidden; });
    default:
      return normalise(rules, before);
  }
}

// The nearest step before `step`, among those of the scores, that is taken.
StepId score_step_before(const StepRules& rules, StepId step) {
  StepId before = step;
  do {
    before = static_cast<StepId>(static_cast<int>(before) - 1);
  } while (!is_taken(rules, before));
  return before;
}

}  // namespace

std::string_view step_name(StepId step) { return kNames[static_cast<size_t>(step)]; }

std::optional<StepId> step_of(std::string_view name) {
  const auto found = std::find(kNames.begin(), kNames.end(), name);
  if (found == kNames.end()) return std::nullopt;
  return static_cast<StepId>(found - kNames.begin());
}

bool is_input(StepId step) {
  const std::string_view name = step_name(step);
  return step == StepId::x || step == StepId::context || name.substr(0, 2) == "W_" || name.substr(0, 2) == "b_";
}

std::vector<int64_t> Matrices::shape() const {
  if (count == 1) return {rows, columns};
  return {count, rows, columns};
}

std::optional<double> scale_of(const StepRules& rules, const StepValues& values) {
  if (rules.scale) return rules.scale;
  if (!values.has(StepId::q)) return std::nullopt;
  return 1.0 / std::sqrt(static_cast<double>(values[StepId::q].columns));
}

bool is_taken(const StepRules& rules, StepId step) {
  switch (step) {
    case StepId::capped:
      return rules.soft_cap.has_value();
    case StepId::biased:
      return !rules.bias.empty();
    case StepId::masked:
      return !rules.visible.empty();
    default:
      return true;
  }
}

StepId last_score_step(const StepRules& rules) { return score_step_before(rules, StepId::weights); }

std::vector<StepId> sources_of(const StepRules& rules, const StepValues& values, StepId step) {
  if (is_input(step)) return {};
  if (is_projection(step)) {
    const auto [input, weight, bias] = projection_of(values, step);
    if (values.has(bias)) return {input, weight, bias};
    return {input, weight};
  }
  switch (step) {
    case StepId::scores:
      return {StepId::q, StepId::k};
    case StepId::heads:
      return {StepId::weights, StepId::v};
    case StepId::concat:
      return {StepId::heads};
    default:
      return {score_step_before(rules, step)};
  }
}

Matrices compute_step(const StepRules& rules, const StepValues& values, StepId step) {
  if (is_input(step) || !is_taken(rules, step)) return {};
  const std::vector<StepId> sources = sources_of(rules, values, step);
  if (!std::all_of(sources.begin(), sources.end(), [&](StepId each) { return values.has(each); })) return {};
  switch (step) {
    case StepId::q:
      return project(values, projection_of(values, step), rules.heads);
    case StepId::k:
    case StepId::v:
      return project(values, projection_of(values, step), rules.kv_heads);
    case StepId::scores:
      return dot_products(rules, values[StepId::q], values[StepId::k]);
    case StepId::heads:
      return mix_values(rules, values[StepId::weights], values[StepId::v]);
    case StepId::concat:
      return side_by_side(values[StepId::heads]);
    case StepId::out:
      return project(values, projection_of(values, step), 1);
    default:
      return compute_score_step(rules, values, step, values[sources.front()]);
  }
}

StepValues compute_steps(const StepRules& rules, StepValues given) {
  for (size_t n = 0; n < kStepCount; ++n) {
    const auto step = static_cast<StepId>(n);
    if (!given.has(step)) given[step] = compute_step(rules, given, step);
  }
  return given;
}

std::vector<double> normalise_row(const StepRules& rules, int64_t head, const double* scores, int64_t t_k) {
  std::vector<double> weights(static_cast<size_t>(t_k));
  if (rules.normaliser == Normaliser::sigmoid) {
    std::transform(scores, scores + t_k, weights.begin(), [](double s) { return 1.0 / (1.0 + std::exp(-s)); });
    return weights;
  }
  const double sink = rules.sinks.empty() ? kHidden : rules.sinks[static_cast<size_t>(head)];
  const double most = std::max(sink, *std::max_element(scores, scores + t_k));
  if (most == kHidden) return weights;  // no visible key: all weights 0
  double sum = std::exp(sink - most);
  for (int64_t j = 0; j < t_k; ++j) sum += weights[static_cast<size_t>(j)] = std::exp(scores[j] - most);
  for (double& weight : weights) weight /= sum;
  return weights;
}

std::string formula_of(const StepRules& rules, const StepValues& given, const StepValues& values, StepId step) {
  const std::string name(step_name(step));
  if (given.has(step)) return name + ", as given";
  const std::string before(step_name(sources_of(rules, values, step).front()));
  if (is_projection(step)) {
    const auto [input, weight, bias] = projection_of(values, step);
    const std::string formula = name + " = " + before + " " + std::string(step_name(weight));
    return values.has(bias) ? formula + " + " + std::string(step_name(bias)) : formula;
  }
  switch (step) {
    case StepId::scores:
      return "scores = q kᵀ";
    case StepId::scaled:
      return "scaled = " + short_text(*scale_of(rules, values)) + " · scores";
    case StepId::capped:
      return "capped = " + short_text(*rules.soft_cap) + " · tanh(scaled / " + short_text(*rules.soft_cap) + ")";
    case StepId::biased:
      return "biased = " + before + " + bias";
    case StepId::masked:
      return "masked = " + before + ", -∞ where a key is hidden";
    case StepId::weights:
      return (rules.normaliser == Normaliser::softmax ? "weights = softmax(" : "weights = sigmoid(") + before + ")";
    case StepId::heads:
      return "heads = weights v";
    default:
      return "concat = the heads side by side";
  }
}

}  // namespace heed::explain
