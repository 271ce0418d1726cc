#include "tests/support/recurrent_case.h"

#include <algorithm>
#include <cmath>

#include "heed/core/rng.h"
#include "tests/support/reference_recurrent.h"

namespace heed::test {

RecurrentCase::RecurrentCase(const RecurrentSizes& sizes, RecurrentCaseOptions given)
    : s(sizes), options(std::move(given)) {
  const int64_t gates = recurrent_gates(options.kind) * s.hidden;
  const float scale = 1.0F / std::sqrt(static_cast<float>(s.hidden));
  item_stride = s.tokens * s.inputs + (options.padded_x ? 3 : 0);
  x = draw(s.batch * item_stride, 1.0F);
  for (int64_t d = 0; d < options.directions; ++d) {
    Direction& each = direction[static_cast<size_t>(d)];
    each.weight_ih = draw(gates * s.inputs, scale);
    each.weight_hh = draw(gates * s.hidden, scale);
    each.bias_ih = draw(options.bias ? gates : 0, 0.5F);
    each.bias_hh = draw(options.bias ? gates : 0, 0.5F);
    each.hidden = draw(options.states ? s.batch * s.hidden : 0, 1.0F);
    each.cell = draw(options.states && is_lstm() ? s.batch * s.hidden : 0, 1.0F);
    each.d_hidden = draw(s.batch * s.hidden, 1.0F).values;
    each.d_cell = draw(is_lstm() ? s.batch * s.hidden : 0, 1.0F).values;
    each.last_hidden.assign(static_cast<size_t>(s.batch * s.hidden), kGuard);
    each.last_cell.assign(static_cast<size_t>(is_lstm() ? s.batch * s.hidden : 0), kGuard);
  }
  y_width = options.directions * s.hidden + 3;
  y.assign(static_cast<size_t>(s.batch * s.tokens * y_width), kGuard);
  d_y = draw(s.batch * s.tokens * y_width, 1.0F).values;
}

RecurrentTensor RecurrentCase::draw(int64_t count, float deviation) {
  RecurrentTensor tensor{std::vector<float>(static_cast<size_t>(count)),
                         std::vector<float>(static_cast<size_t>(count), kBefore)};
  Rng(++seed_).fill_normal(tensor.values, deviation);
  return tensor;
}

const RecurrentDirection* RecurrentCase::directions() {
  const int64_t gates = recurrent_gates(options.kind) * s.hidden;
  for (int64_t d = 0; d < options.directions; ++d) {
    Direction& each = direction[static_cast<size_t>(d)];
    RecurrentDirection& to = views_[d];
    to.parameters = {{each.weight_ih.values.data(), {gates, s.inputs}},
                     {each.weight_hh.values.data(), {gates, s.hidden}},
                     {data_or_null(each.bias_ih.values), {gates}},
                     {data_or_null(each.bias_hh.values), {gates}}};
    to.first = {{data_or_null(each.hidden.values), states()}, {data_or_null(each.cell.values), states()}};
    to.y = {y.data() + d * s.hidden, {s.batch, s.tokens, s.hidden}, {s.tokens * y_width, y_width, 1}};
    to.last = {{each.last_hidden.data(), states()}, {data_or_null(each.last_cell), states()}};
  }
  return views_;
}

RecurrentGradients RecurrentCase::gradients_of(int64_t d) {
  const int64_t gates = recurrent_gates(options.kind) * s.hidden;
  Direction& each = direction[static_cast<size_t>(d)];
  RecurrentGradients to;
  to.d_y = {d_y.data() + d * s.hidden, {s.batch, s.tokens, s.hidden}, {s.tokens * y_width, y_width, 1}};
  to.d_last = {{each.d_hidden.data(), states()}, {data_or_null(each.d_cell), states()}};
  to.d_first_hidden = {{data_or_null(each.hidden.gradient), states()}, options.add};
  to.d_first_cell = {{data_or_null(each.cell.gradient), states()}, options.add};
  to.parameters = {{each.weight_ih.gradient.data(), {gates, s.inputs}},
                   {each.weight_hh.gradient.data(), {gates, s.hidden}},
                   {data_or_null(each.bias_ih.gradient), {gates}},
                   {data_or_null(each.bias_hh.gradient), {gates}}};
  return to;
}

double RecurrentCase::reference_loss(std::vector<double>* expected) const {
  double loss = 0.0;
  for (int64_t d = 0; d < options.directions; ++d) {
    for (int64_t item = 0; item < s.batch; ++item) loss += item_loss(d, item, expected);
  }
  return loss;
}

double RecurrentCase::item_loss(int64_t d, int64_t item, std::vector<double>* expected) const {
  const Direction& each = direction[static_cast<size_t>(d)];
  const auto doubles = [](const std::vector<float>& all, int64_t first, int64_t count) {
    return std::vector<double>(all.begin() + first, all.begin() + first + count);
  };
  const auto whole = [&](const RecurrentTensor& tensor) {
    return doubles(tensor.values, 0, static_cast<int64_t>(tensor.values.size()));
  };
  const std::vector<double> w_ih = whole(each.weight_ih), w_hh = whole(each.weight_hh), b_ih = whole(each.bias_ih),
                            b_hh = whole(each.bias_hh);
  const ReferenceRecurrentParameters<double> p{w_ih, w_hh, b_ih, b_hh};
  const auto first = [&](const RecurrentTensor& tensor) {
    return tensor.values.empty() ? std::vector<double>(static_cast<size_t>(s.hidden))
                                 : doubles(tensor.values, item * s.hidden, s.hidden);
  };
  std::vector<double> h = first(each.hidden), c = first(each.cell);
  std::vector<double> rows(static_cast<size_t>(length(item) * s.hidden));
  double loss = 0.0;
  const auto add = [&](const std::vector<double>& values, const float* weights) {
    for (size_t j = 0; j < values.size(); ++j) loss += values[j] * static_cast<double>(weights[j]);
  };
  for (int64_t step = 0; step < length(item); ++step) {
    const int64_t t = d == 1 ? length(item) - 1 - step : step;
    const std::vector<double> token = doubles(x.values, item * item_stride + t * s.inputs, s.inputs);
    reference_recurrent_step<double>(options.kind, p, token, h, c);
    add(h, &d_y[y_at(d, item, t)]);
    std::copy(h.begin(), h.end(), rows.begin() + t * s.hidden);
  }
  add(h, &each.d_hidden[static_cast<size_t>(item * s.hidden)]);
  if (is_lstm()) add(c, &each.d_cell[static_cast<size_t>(item * s.hidden)]);
  if (expected == nullptr) return loss;
  expected->insert(expected->end(), rows.begin(), rows.end());
  expected->insert(expected->end(), h.begin(), h.end());
  if (is_lstm()) expected->insert(expected->end(), c.begin(), c.end());
  return loss;
}

std::vector<double> RecurrentCase::results() const {
  std::vector<double> all;
  for (int64_t d = 0; d < options.directions; ++d) {
    const Direction& each = direction[static_cast<size_t>(d)];
    for (int64_t item = 0; item < s.batch; ++item) {
      for (int64_t t = 0; t < length(item); ++t) append(all, &y[y_at(d, item, t)]);
      append(all, &each.last_hidden[static_cast<size_t>(item * s.hidden)]);
      if (is_lstm()) append(all, &each.last_cell[static_cast<size_t>(item * s.hidden)]);
    }
  }
  return all;
}

std::vector<std::pair<std::string, RecurrentTensor*>> RecurrentCase::tensors() {
  std::vector<std::pair<std::string, RecurrentTensor*>> all{{"x", &x}};
  for (int64_t d = 0; d < options.directions; ++d) {
    Direction& each = direction[static_cast<size_t>(d)];
    for (auto& [name, tensor] : {std::pair<const char*, RecurrentTensor*>{"weight_ih", &each.weight_ih},
                                 {"weight_hh", &each.weight_hh},
                                 {"bias_ih", &each.bias_ih},
                                 {"bias_hh", &each.bias_hh},
                                 {"hidden", &each.hidden},
                                 {"cell", &each.cell}}) {
      all.emplace_back(name + std::string(d == 1 ? "_reverse" : ""), tensor);
    }
  }
  return all;
}

}  // namespace heed::test
