// recurrent_forward and recurrent_backward against the plain reference in double, and its central differences.
#include "heed/ops/recurrent.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "heed/core/rng.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/recurrent_case.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

constexpr RecurrentKind kKinds[] = {RecurrentKind::rnn_tanh, RecurrentKind::rnn_relu, RecurrentKind::lstm,
                                    RecurrentKind::gru};

// 1, odd, whole vectors and more, more items than a block has.
constexpr RecurrentSizes kSizes[] = {{1, 1, 1, 1}, {3, 4, 2, 5}, {2, 5, 3, 16}, {5, 3, 7, 33}, {41, 2, 3, 17}};

std::vector<int64_t> some_lengths(const RecurrentSizes& s) {
  std::vector<int64_t> lengths;
  for (int64_t item = 0; item < s.batch; ++item) lengths.push_back(1 + (item * 5 + 1) % s.tokens);
  return lengths;
}

// Every kind with each size; the other options vary along.
template <class Body>
void for_each_case(Body body) {
  int64_t variant = 0;
  for (const RecurrentSizes& sizes : kSizes) {
    for (const RecurrentKind kind : kKinds) {
      for (const bool with_lengths : {false, true}) {
        RecurrentCaseOptions options;
        options.kind = kind;
        options.directions = 1 + variant % 2;
        options.bias = variant % 3 != 2;
        options.states = variant % 5 != 3;
        options.add = variant % 7 < 3;
        options.padded_x = variant % 4 == 1;
        if (with_lengths) options.lengths = some_lengths(sizes);
        ++variant;
        SCOPED_TRACE("variant " + std::to_string(variant) + ", hidden " + std::to_string(sizes.hidden));
        body(sizes, options);
      }
    }
  }
}

TEST(Recurrent, ForwardMatchesTheReference) {
  on_every_isa([] {
    for_each_case([](const RecurrentSizes& sizes, const RecurrentCaseOptions& options) {
      RecurrentCase test(sizes, options);
      test.forward();
      std::vector<double> expected;
      test.reference_loss(&expected);
      const std::vector<double> got = test.results();
      ASSERT_EQ(got.size(), expected.size());
      for (size_t i = 0; i < got.size(); ++i) ASSERT_NEAR(got[i], expected[i], 2e-6 * std::max(1.0, std::abs(got[i])));
    });
  });
}

TEST(Recurrent, OutputsPastALengthAreZeroAndNothingElseIsWritten) {
  on_every_isa([] {
    for_each_case([](const RecurrentSizes& sizes, const RecurrentCaseOptions& options) {
      RecurrentCase test(sizes, options);
      test.forward();
      for (int64_t item = 0; item < sizes.batch; ++item) {
        for (int64_t t = 0; t < sizes.tokens; ++t) {
          const float* const row = &test.y[test.y_at(0, item, t)];
          const int64_t width = options.directions * sizes.hidden;
          if (t >= test.length(item)) {
            for (int64_t j = 0; j < width; ++j) ASSERT_EQ(row[j], 0.0F);
          }
          for (int64_t j = width; j < test.y_width; ++j) ASSERT_EQ(row[j], RecurrentCase::kGuard);
        }
      }
    });
  });
}

// Along a random direction v of each tensor: (loss(p + ε v) - loss(p - ε v)) / 2ε = Σ gradient ∘ v. The steps must be
// exact in f32, which holds the values: v is a few multiples of 2^-10 of them.
TEST(Recurrent, BackwardIsTheGradientOfTheReference) {
  on_every_isa([] {
    for_each_case([](const RecurrentSizes& sizes, const RecurrentCaseOptions& options) {
      if (options.kind == RecurrentKind::rnn_relu) return;  // has kinks; below
      RecurrentCase test(sizes, options);
      test.forward();
      test.backward();
      uint64_t seed = 100;
      for (auto& [name, tensor] : test.tensors()) {
        const bool is_input = name == "x" || name.starts_with("hidden") || name.starts_with("cell");
        const double before = is_input && !options.add ? 0.0 : static_cast<double>(RecurrentCase::kBefore);
        const std::vector<float> values = tensor->values;
        std::vector<float> along(values.size());
        Rng(++seed).fill_normal(along, 0x1p-8F);
        double slope = 0.0, size = 1.0;
        std::vector<float> up = values, down = values;
        for (size_t i = 0; i < values.size(); ++i) {
          up[i] += along[i];
          down[i] -= along[i];
          const double gap = static_cast<double>(up[i]) - static_cast<double>(down[i]);
          const bool padding = name == "x" && options.padded_x &&
                               static_cast<int64_t>(i) % test.item_stride >= sizes.tokens * sizes.inputs;
          if (padding) continue;
          const double gradient = static_cast<double>(tensor->gradient[i]) - before;
          slope += gradient * gap;
          size += std::abs(gradient * gap);
        }
        tensor->values = up;
        const double above = test.reference_loss();
        tensor->values = down;
        const double below = test.reference_loss();
        tensor->values = values;
        EXPECT_NEAR(slope, above - below, 2e-4 * size) << name;
      }
    });
  });
}

// Element by element, with steps so small that hardly a unit of ReLU changes sides.
TEST(Recurrent, EveryGradientIsACentralDifference) {
  for (const RecurrentKind kind : kKinds) {
    SCOPED_TRACE(static_cast<int>(kind));
    RecurrentCaseOptions options;
    options.kind = kind;
    options.directions = 2;
    options.lengths = {2, 4, 1};
    RecurrentCase test({3, 4, 2, 3}, options);
    test.forward();
    test.backward();
    for (auto& [name, tensor] : test.tensors()) {
      const bool is_parameter = name.starts_with("weight") || name.starts_with("bias");
      for (size_t i = 0; i < tensor->values.size(); ++i) {
        const float value = tensor->values[i];
        const float up = value + 0x1p-12F, down = value - 0x1p-12F;
        tensor->values[i] = up;
        const double above = test.reference_loss();
        tensor->values[i] = down;
        const double below = test.reference_loss();
        tensor->values[i] = value;
        const double slope = (above - below) / (static_cast<double>(up) - static_cast<double>(down));
        const double before = is_parameter ? static_cast<double>(RecurrentCase::kBefore) : 0.0;
        EXPECT_NEAR(static_cast<double>(tensor->gradient[i]) - before, slope, 2e-5 * std::max(1.0, std::abs(slope)))
            << name << ", element " << i;
      }
    }
  }
}

void expect_equal_bits(const std::vector<float>& got, const std::vector<float>& expected, const std::string& what) {
  ASSERT_EQ(got.size(), expected.size());
  for (size_t i = 0; i < got.size(); ++i) {
    ASSERT_EQ(std::bit_cast<uint32_t>(got[i]), std::bit_cast<uint32_t>(expected[i])) << what << ", element " << i;
  }
}

TEST(Recurrent, SameBitsForAnyNumberOfThreads) {
  on_every_isa([] {
    for (const RecurrentKind kind : kKinds) {
      RecurrentCaseOptions options;
      options.kind = kind;
      options.directions = 2;
      const RecurrentSizes sizes{45, 6, 9, 20};
      options.lengths = some_lengths(sizes);
      RecurrentCase expected(sizes, options);
      {
        const Threads one(1);
        expected.forward();
        expected.backward();
      }
      for (const int count : {2, 5}) {
        const Threads threads(count);
        RecurrentCase test(sizes, options);
        test.forward();
        test.backward();
        expect_equal_bits(test.y, expected.y, "y");
        auto got = test.tensors(), all = expected.tensors();
        for (size_t n = 0; n < all.size(); ++n) {
          expect_equal_bits(got[n].second->gradient, all[n].second->gradient, all[n].first);
        }
      }
    }
  });
}

// The values of an item of `all` as the only item of `one`.
void take_item(const RecurrentCase& all, int64_t item, RecurrentCase& one) {
  const auto rows = [&](const std::vector<float>& from, int64_t width) {
    const auto first = from.begin() + item * width;
    return from.empty() ? from : std::vector<float>(first, first + width);
  };
  one.x.values = rows(all.x.values, all.item_stride);
  one.d_y = rows(all.d_y, all.s.tokens * all.y_width);
  for (size_t d = 0; d < 2; ++d) {
    const RecurrentCase::Direction& from = all.direction[d];
    RecurrentCase::Direction& to = one.direction[d];
    to.weight_ih.values = from.weight_ih.values;
    to.weight_hh.values = from.weight_hh.values;
    to.bias_ih.values = from.bias_ih.values;
    to.bias_hh.values = from.bias_hh.values;
    to.hidden.values = rows(from.hidden.values, all.s.hidden);
    to.cell.values = rows(from.cell.values, all.s.hidden);
    to.d_hidden = rows(from.d_hidden, all.s.hidden);
    to.d_cell = rows(from.d_cell, all.s.hidden);
  }
}

TEST(Recurrent, AnItemHasTheBitsItHasAlone) {
  on_every_isa([] {
    for (const RecurrentKind kind : kKinds) {
      RecurrentCaseOptions options;
      options.kind = kind;
      options.directions = 2;
      const RecurrentSizes sizes{14, 5, 9, 20};
      options.lengths = some_lengths(sizes);
      RecurrentCase all(sizes, options);
      all.forward();
      all.backward();
      for (int64_t item = 0; item < sizes.batch; ++item) {
        options.lengths = {all.length(item)};
        RecurrentCase one({1, sizes.tokens, sizes.inputs, sizes.hidden}, options);
        take_item(all, item, one);
        one.forward();
        one.backward();
        const auto rows = [&](const std::vector<float>& from, size_t width) {
          const auto first = from.begin() + item * static_cast<int64_t>(width);
          return std::vector<float>(first, first + static_cast<int64_t>(width));
        };
        expect_equal_bits(one.y, rows(all.y, one.y.size()), "y");
        expect_equal_bits(one.x.gradient, rows(all.x.gradient, one.x.gradient.size()), "d_x");
        for (size_t d = 0; d < 2; ++d) {
          const std::vector<float>& gradient = one.direction[d].hidden.gradient;
          expect_equal_bits(gradient, rows(all.direction[d].hidden.gradient, gradient.size()), "d_hidden");
        }
      }
    }
  });
}

TEST(Recurrent, PaddingIsNotRead) {
  RecurrentCaseOptions options;
  options.directions = 2;
  options.lengths = {2, 4};
  RecurrentCase clean({2, 4, 3, 5}, options), dirty({2, 4, 3, 5}, options);
  const float nan = std::numeric_limits<float>::quiet_NaN();
  for (size_t i = 2 * 3; i < 4 * 3; ++i) dirty.x.values[i] = nan;
  for (int64_t t = 2; t < 4; ++t) std::fill_n(&dirty.d_y[dirty.y_at(0, 0, t)], dirty.y_width, nan);
  for (RecurrentCase* each : {&clean, &dirty}) {
    each->forward();
    each->backward();
  }
  expect_equal_bits(dirty.y, clean.y, "y");
  auto got = dirty.tensors(), expected = clean.tensors();
  for (size_t n = 0; n < got.size(); ++n) {
    expect_equal_bits(got[n].second->gradient, expected[n].second->gradient, got[n].first);
  }
}

TEST(Recurrent, NanStaysInItsItem) {
  for (const RecurrentKind kind : kKinds) {
    RecurrentCaseOptions options;
    options.kind = kind;
    RecurrentCase test({2, 3, 2, 3}, options);
    test.x.values[0] = std::numeric_limits<float>::quiet_NaN();
    test.forward();
    for (int64_t j = 0; j < 3; ++j) {
      EXPECT_TRUE(std::isnan(test.direction[0].last_hidden[static_cast<size_t>(j)]));
      EXPECT_FALSE(std::isnan(test.direction[0].last_hidden[static_cast<size_t>(3 + j)]));
    }
  }
}

TEST(Recurrent, WithoutTokensTheLastStateIsTheFirst) {
  RecurrentCase test({2, 0, 3, 4}, {});
  test.forward();
  EXPECT_EQ(test.direction[0].last_hidden, test.direction[0].hidden.values);
  EXPECT_EQ(test.direction[0].last_cell, test.direction[0].cell.values);
  test.backward();
  EXPECT_EQ(test.direction[0].hidden.gradient, test.direction[0].d_hidden);
  RecurrentCase none({0, 3, 3, 4}, {});
  none.forward();
  none.backward();
}

TEST(Recurrent, NothingIsKeptWithoutBackwardAndTheBitsAreTheSame) {
  for (const RecurrentKind kind : kKinds) {
    RecurrentCaseOptions options;
    options.kind = kind;
    RecurrentCase kept({3, 4, 5, 6}, options), plain({3, 4, 5, 6}, options);
    kept.forward();
    plain.saved = RecurrentSaved(plain.memory, false);
    plain.forward();
    expect_equal_bits(plain.y, kept.y, "y");
    EXPECT_EQ(plain.saved.cells[0].data(), nullptr);
    expect_error("recurrent_backward", [&] { plain.backward(); }, {"kept nothing"});
  }
}

TEST(Recurrent, AllocatesNothingWithArenasThatHaveGrown) {
  RecurrentCaseOptions options;
  options.directions = 2;
  options.lengths = {3, 1, 4};
  RecurrentCase test({3, 4, 5, 6}, options);
  const auto step = [&] {
    const Arena::Scope scope(test.memory);
    test.forward();
    test.backward();
  };
  step();
  step();
  const int64_t allocations = allocation_count();
  step();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(Recurrent, RefusesWhatDoesNotFit) {
  const auto refuse = [](const RecurrentCaseOptions& options, auto change, std::initializer_list<const char*> parts) {
    RecurrentCase test({3, 4, 2, 5}, options);
    RecurrentInputs inputs = test.inputs();
    RecurrentDirection direction = test.directions()[0];
    change(inputs, direction);
    expect_error([&] { recurrent_forward(inputs, {&direction, 1}, test.saved); }, parts);
  };
  const std::vector<int64_t> zero = {1, 0, 4}, long_item = {1, 2, 5}, few = {1, 2};
  refuse({}, [&](auto& in, auto&) { in.lengths = zero; }, {"recurrent_forward: ", "item 1 is 0", "1 … 4"});
  refuse({}, [&](auto& in, auto&) { in.lengths = long_item; }, {"item 2 is 5", "1 … 4"});
  refuse({}, [&](auto& in, auto&) { in.lengths = few; }, {"2 lengths for 3 items"});
  refuse({}, [](auto& in, auto&) { in.kind = RecurrentKind::gru; }, {"weight_ih has shape [20, 2]", "[15, 2]"});
  refuse({}, [](auto&, auto& d) { d.y = d.y.slice(1, 0, 3); }, {"y has shape [3, 3, 5]", "[3, 4, 5]"});
  refuse({}, [](auto&, auto& d) { d.first.hidden = d.first.hidden.slice(0, 0, 2); }, {"first hidden state", "[2, 5]"});
  refuse({}, [](auto&, auto& d) { d.parameters.bias_hh = d.parameters.bias_hh.slice(0, 0, 4); }, {"bias_hh has 4"});
  RecurrentCaseOptions rnn;
  rnn.kind = RecurrentKind::rnn_tanh;
  refuse(rnn, [](auto&, auto& d) { d.last.cell = d.last.hidden; }, {"cell state", "only LSTM"});
  RecurrentCase test({3, 4, 2, 5}, {});
  expect_error("recurrent_forward", [&] { recurrent_forward(test.inputs(), {}, test.saved); }, {"0 directions"});
  test.forward();
  RecurrentGradients wrong;
  wrong.d_y = View<const float, 3>(test.d_y.data(), {3, 4, 4});
  expect_error("recurrent_backward",
               [&] {
                 recurrent_backward(test.inputs(), {test.directions(), 1}, test.saved, {&wrong, 1}, {});
               },
               {"d_y has shape [3, 4, 4]", "[3, 4, 5]"});
}

}  // namespace
}  // namespace heed::test
