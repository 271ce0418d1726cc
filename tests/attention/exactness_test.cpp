// Exactness at size: the contract's bounds for unit-variance inputs, against sums in double.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr double kForwardTolerance = 2e-6;

Tensor normal_tensor(std::vector<int64_t> shape, uint64_t seed) {
  Tensor tensor(std::move(shape));
  Rng(seed).fill_normal(tensor.values());
  return tensor;
}

// One query of one head in double: out [Dv] and the log-sum-exp.
struct Row {
  std::vector<double> out;
  double log_sum_exp = -std::numeric_limits<double>::infinity();
};

// The row of query q of head h of item 0, from the definition. Keys 0 … keys-1 are visible.
Row row_in_double(const AttentionInputs& in, int64_t h, int64_t q, int64_t keys) {
  const int64_t kv = h / (in.q.size(2) / in.k.size(2));
  const double scale = 1.0 / std::sqrt(static_cast<double>(in.q.size(3)));
  std::vector<double> weights(static_cast<size_t>(keys));
  for (int64_t k = 0; k < keys; ++k) {
    double score = 0.0;
    for (int64_t d = 0; d < in.q.size(3); ++d) {
      score += static_cast<double>(in.q(0, q, h, d)) * static_cast<double>(in.k(0, k, kv, d));
    }
    weights[static_cast<size_t>(k)] = scale * score;
  }
  const double largest = *std::max_element(weights.begin(), weights.end());
  double sum = 0.0;
  for (double& weight : weights) sum += weight = std::exp(weight - largest);

  Row row;
  row.out.resize(static_cast<size_t>(in.v.size(3)));
  for (int64_t k = 0; k < keys; ++k) {
    const double weight = weights[static_cast<size_t>(k)] / sum;
    for (size_t d = 0; d < row.out.size(); ++d) row.out[d] += weight * static_cast<double>(in.v(0, k, kv, d));
  }
  row.log_sum_exp = largest + std::log(sum);
  return row;
}

struct Sizes {
  int64_t t_q;
  int64_t t_k;
  int64_t heads;
  int64_t kv_heads;
  int64_t d_k;
  int64_t d_v;
  bool causal;  // bottom right: the queries are the last ones of a sequence of Tk
};

class Problem {
 public:
  explicit Problem(const Sizes& sizes)
      : sizes_(sizes),
        q_(normal_tensor({1, sizes.t_q, sizes.heads, sizes.d_k}, 1)),
        k_(normal_tensor({1, sizes.t_k, sizes.kv_heads, sizes.d_k}, 2)),
        v_(normal_tensor({1, sizes.t_k, sizes.kv_heads, sizes.d_v}, 3)) {
    if (sizes.causal) options_.mask = Mask::causal(QueryPositions::bottom_right());
    for (int64_t h = 0; h < sizes.heads; ++h) {
      for (int64_t q = 0; q < sizes.t_q; ++q) {
        const int64_t keys = sizes.causal ? sizes.t_k - sizes.t_q + q + 1 : sizes.t_k;
        rows_.push_back(row_in_double(inputs(), h, q, keys));
      }
    }
  }

  AttentionInputs inputs() const { return {q_.view<4>(), k_.view<4>(), v_.view<4>()}; }
  const AttentionOptions& options() const { return options_; }
  const Row& row(int64_t h, int64_t q) const { return rows_[static_cast<size_t>(h * sizes_.t_q + q)]; }

  void expect_forward_exact() const {
    Tensor out({1, sizes_.t_q, sizes_.heads, sizes_.d_v});
    Tensor reference({1, sizes_.heads, sizes_.t_q});
    Tensor sum({1, sizes_.heads, sizes_.t_q});
    attention_forward(inputs(), options(), out.view<4>(), {reference.view<3>(), sum.view<3>()});
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      Closeness head;
      Closeness sums;
      for (int64_t q = 0; q < sizes_.t_q; ++q) {
        for (int64_t d = 0; d < sizes_.d_v; ++d) {
          head.add(out.view<4>()(0, q, h, d), row(h, q).out[static_cast<size_t>(d)]);
        }
        const double log2_sum = std::log2(static_cast<double>(sum.view<3>()(0, h, q)));
        const double in_base_2 = static_cast<double>(reference.view<3>()(0, h, q)) + log2_sum;
        sums.add(static_cast<float>(in_base_2 * std::log(2.0)), row(h, q).log_sum_exp);
      }
      EXPECT_LE(head.relative(), kForwardTolerance) << "head " << h << ": error " << head.error();
      EXPECT_LE(sums.relative(), kForwardTolerance) << "log-sum-exp of head " << h << ": error " << sums.error();
    }
  }

 private:
  Sizes sizes_;
  Tensor q_;
  Tensor k_;
  Tensor v_;
  AttentionOptions options_;
  std::vector<Row> rows_;  // [H, Tq]
};

// A row's bits do not depend on the other queries, so a few queries stand for the rows of a square problem.
TEST(AttentionExactness, ForwardIsWithin2em6AtAnyLengthUpTo32768) {
  for (const Sizes& sizes : {Sizes{50, 128, 2, 2, 64, 64, false}, Sizes{50, 1000, 2, 1, 64, 64, true},
                             Sizes{50, 2048, 2, 2, 128, 128, false}, Sizes{20, 4097, 2, 2, 80, 33, true},
                             Sizes{50, 32768, 1, 1, 64, 64, false}, Sizes{50, 32768, 2, 1, 32, 32, true}}) {
    SCOPED_TRACE(::testing::Message() << "Tk " << sizes.t_k << ", Dk " << sizes.d_k);
    const Problem problem(sizes);
    on_every_isa([&] { problem.expect_forward_exact(); });
  }
}

}  // namespace
}  // namespace heed::test
