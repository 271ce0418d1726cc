#include "heed/explain/steps.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/explain/written.h"

namespace heed::explain {
namespace {

constexpr double kHidden = -std::numeric_limits<double>::infinity();

// A projection: input times weight, plus bias.
struct Projection {
  AttentionStep input;
  AttentionStep weight;
  AttentionStep bias;
};

// Is `step` there as a source of others? A weight always is: without it the step cannot be computed.
bool is_source(const StepRules& rules, const StepValues& values, AttentionStep step) {
  const StepRow& row = step_row(step);
  const bool may_be_absent =
      step == AttentionStep::context || (row.kind == StepKind::parameter && row.dims.size() == 1);
  return may_be_absent ? values.has(step) : is_taken(rules, step);
}

Projection projection_of(const StepRules& rules, const StepValues& values, AttentionStep step) {
  const StepRow& row = step_row(step);
  return {sources_of(rules, values, step).front(), row.sources[1], row.sources[2]};
}

std::string shape_text(AttentionStep step, const Matrices& matrices) {
  return std::string(step_name(step)) + " " + to_text(matrices.shape());
}

// A step of this size; an error that names `blamed` if it would be too large.
Matrices sized(AttentionStep blamed, int64_t count, int64_t rows, int64_t columns) {
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
    throw StepError(AttentionStep::k, shape_text(AttentionStep::q, q) + " and " + shape_text(AttentionStep::k, k) +
                                          ": rows of q and k must be equally wide");
  }
  Matrices scores = sized(AttentionStep::k, rules.heads, q.rows, k.rows);
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
    throw StepError(AttentionStep::v, shape_text(AttentionStep::weights, weights) + " times " +
                                          shape_text(AttentionStep::v, v) + ": v needs a row for each key");
  }
  Matrices heads = sized(AttentionStep::v, rules.heads, weights.rows, v.columns);
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
Matrices compute_score_step(const StepRules& rules, const StepValues& values, AttentionStep step,
                            const Matrices& before) {
  switch (step) {
    case AttentionStep::scaled: {
      const std::optional<double> scale = scale_of(rules, values);
      if (!scale) return {};
      return each_score(before, [&](double s, auto...) { return *scale * s; });
    }
    case AttentionStep::capped:
      return each_score(before, [&](double s, auto...) { return *rules.soft_cap * std::tanh(s / *rules.soft_cap); });
    case AttentionStep::biased:
      return each_score(before, [&](double s, auto... at) { return s + broadcast(rules.bias, at...); });
    case AttentionStep::masked:
      return each_score(before,
                        [&](double s, auto... at) { return broadcast(rules.visible, at...) != 0.0 ? s : kHidden; });
    default:
      return normalise(rules, before);
  }
}

}  // namespace

bool is_input(AttentionStep step) { return step_row(step).kind != StepKind::computed; }

bool is_explained(AttentionStep step) { return step != AttentionStep::dropped; }

std::vector<int64_t> Matrices::shape() const {
  if (count == 1) return {rows, columns};
  return {count, rows, columns};
}

std::optional<double> scale_of(const StepRules& rules, const StepValues& values) {
  if (rules.scale) return rules.scale;
  if (!values.has(AttentionStep::q)) return std::nullopt;
  return 1.0 / std::sqrt(static_cast<double>(values[AttentionStep::q].columns));
}

bool is_taken(const StepRules& rules, AttentionStep step) {
  switch (step) {
    case AttentionStep::capped:
      return rules.soft_cap.has_value();
    case AttentionStep::biased:
      return !rules.bias.empty();
    case AttentionStep::masked:
      return !rules.visible.empty();
    default:
      return is_explained(step);
  }
}

AttentionStep last_score_step(const StepRules& rules) { return sources_of(rules, {}, AttentionStep::weights).front(); }

std::vector<AttentionStep> sources_of(const StepRules& rules, const StepValues& values, AttentionStep step) {
  if (is_input(step)) return {};
  return taken_sources(step, [&](AttentionStep each) { return is_source(rules, values, each); });
}

Matrices compute_step(const StepRules& rules, const StepValues& values, AttentionStep step) {
  if (is_input(step) || !is_taken(rules, step)) return {};
  const std::vector<AttentionStep> sources = sources_of(rules, values, step);
  if (!std::all_of(sources.begin(), sources.end(), [&](AttentionStep each) { return values.has(each); })) return {};
  switch (step) {
    case AttentionStep::q:
      return project(values, projection_of(rules, values, step), rules.heads);
    case AttentionStep::k:
    case AttentionStep::v:
      return project(values, projection_of(rules, values, step), rules.kv_heads);
    case AttentionStep::scores:
      return dot_products(rules, values[AttentionStep::q], values[AttentionStep::k]);
    case AttentionStep::heads:
      return mix_values(rules, values[AttentionStep::weights], values[AttentionStep::v]);
    case AttentionStep::concat:
      return side_by_side(values[AttentionStep::heads]);
    case AttentionStep::out:
      return project(values, projection_of(rules, values, step), 1);
    default:
      return compute_score_step(rules, values, step, values[sources.front()]);
  }
}

StepValues compute_steps(const StepRules& rules, StepValues given) {
  for (const AttentionStep step : all_steps()) {
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

std::string formula_of(const StepRules& rules, const StepValues& given, const StepValues& values, AttentionStep step) {
  if (given.has(step)) return given_formula(step);
  FormulaTerms terms;
  if (step == AttentionStep::scaled) terms.scaled = short_text(*scale_of(rules, values)) + " · scores";
  if (rules.soft_cap) terms.cap = short_text(*rules.soft_cap);
  terms.added = " + bias";
  terms.hidden = "-∞";
  terms.normaliser = rules.normaliser == Normaliser::softmax ? "softmax" : "sigmoid";
  return step_formula(step, sources_of(rules, values, step), terms);
}

}  // namespace heed::explain
