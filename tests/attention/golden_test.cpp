// Attention against PyTorch's float64 answers (tools/goldens/make_attention.py).
#include "tests/support/golden.h"

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <vector>

#include "heed/attention/attention.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"

namespace heed::test {
namespace {

constexpr double kForwardTolerance = 2e-6;
constexpr double kGradientTolerance = 1e-5;
// Gradients smaller than this, for inputs of unit variance, are what is left of larger terms that cancelled.
constexpr double kLeastGradient = 0.1;

std::vector<int64_t> numbers(std::istream& words) {
  std::vector<int64_t> result;
  for (int64_t number = 0; words >> number;) result.push_back(number);
  return result;
}

// One part of a mask: "causal", "lengths 13 1 7", …
Mask mask_part(const std::string& text, const Bits& visible, const View<const bool, 4>& hidden) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  const std::vector<int64_t> values = numbers(words);
  if (name == "none") return {};
  if (name == "causal") return Mask::causal();
  if (name == "causal_top_left") return Mask::causal(QueryPositions::top_left());
  if (name == "causal_bottom_right") return Mask::causal(QueryPositions::bottom_right());
  if (name == "window") return Mask::window(values.at(0), values.at(1));
  if (name == "lengths") return Mask::lengths(values);
  if (name == "documents") return Mask::documents(values);
  if (name == "keep") return Mask::keep(visible.view4());
  if (name == "block") return Mask::block(hidden);
  ADD_FAILURE() << "no mask named " << name;
  return {};
}

// A case, ready to be passed to attention.
class Problem {
 public:
  explicit Problem(const GoldenCase& golden) : golden_(golden) {
    const Bits& visible = golden.bits.at("visible");
    const auto count = static_cast<size_t>(element_count(visible.shape));
    hidden_ = std::make_unique<bool[]>(count);
    for (size_t i = 0; i < count; ++i) hidden_[i] = !visible.values[i];
    const View<const bool, 4> hidden(hidden_.get(), visible.view4().shape());

    std::istringstream parts(golden.texts.at("mask"));
    for (std::string part; std::getline(parts, part, '&');) {
      options_.mask = options_.mask & mask_part(part, visible, hidden);
    }
    if (golden.texts.contains("scale")) options_.scale = std::stof(golden.texts.at("scale"));
  }

  View<const float, 4> tensor(const char* name) const { return golden_.tensors.at(name).view<4>(); }
  AttentionInputs inputs() const { return {tensor("q"), tensor("k"), tensor("v")}; }
  const AttentionOptions& options() const { return options_; }

  View<const bool, 4> visible() const { return golden_.bits.at("visible").view4(); }
  MaskSizes sizes() const { return {visible().size(0), visible().size(1), visible().size(2), visible().size(3)}; }
  double spread() const { return std::stod(golden_.texts.at("spread")); }  // of q
  const Tensor& log_sum_exps() const { return golden_.tensors.at("lse"); }

 private:
  const GoldenCase& golden_;
  std::unique_ptr<bool[]> hidden_;
  AttentionOptions options_;
};

// Forward's outputs.
struct Outputs {
  Tensor out;
  Tensor shift;
  Tensor sum;

  RowStates<float> rows() { return {shift.view<3>(), sum.view<3>()}; }
};

Outputs run_forward(const Problem& problem) {
  const std::vector<int64_t> rows = problem.log_sum_exps().shape();
  const Shape<4> shape = problem.tensor("out").shape();
  Outputs outputs{Tensor({shape.begin(), shape.end()}), Tensor(rows), Tensor(rows)};
  attention_forward(problem.inputs(), problem.options(), outputs.out.view<4>(), outputs.rows());
  return outputs;
}

// test(problem) for each golden case on every instruction set.
template <class Test>
void for_each_golden(Test test) {
  const std::vector<GoldenCase> cases = load_goldens("attention.txt");
  ASSERT_GE(cases.size(), 20U);
  on_every_isa([&] {
    for (const GoldenCase& golden : cases) {
      SCOPED_TRACE(golden.name);
      test(Problem(golden));
    }
  });
}

TEST(AttentionGolden, MasksShowTheSameKeysAsPyTorch) {
  for (const GoldenCase& golden : load_goldens("attention.txt")) {
    SCOPED_TRACE(golden.name);
    const Problem problem(golden);
    const MaskSizes sizes = problem.sizes();
    int64_t pairs = 0;
    for (int64_t b = 0; b < sizes.batch; ++b) {
      for (int64_t h = 0; h < sizes.heads; ++h) {
        for (int64_t q = 0; q < sizes.t_q; ++q) {
          for (int64_t k = 0; k < sizes.t_k; ++k) {
            EXPECT_EQ(problem.options().mask.visible(sizes, b, h, q, k), problem.visible()(b, h, q, k))
                << "query " << q << ", key " << k;
            pairs += problem.visible()(b, h, q, k);
          }
        }
      }
    }
    EXPECT_EQ(problem.options().mask.visible_pairs(sizes), pairs);
  }
}

TEST(AttentionGolden, ForwardAgrees) {
  for_each_golden([](const Problem& problem) {
    const Outputs outputs = run_forward(problem);
    expect_heads_close(outputs.out.view<4>(), problem.tensor("out"), kForwardTolerance);
  });
}

TEST(AttentionGolden, LogSumExpAgrees) {
  for_each_golden([](const Problem& problem) {
    Outputs outputs = run_forward(problem);
    Tensor result(problem.log_sum_exps().shape());
    log_sum_exp(outputs.rows(), result.view<3>());
    Closeness rows;
    for (size_t i = 0; i < result.values().size(); ++i) {
      rows.add(result.values()[i], static_cast<double>(problem.log_sum_exps().values()[i]));
    }
    EXPECT_LE(rows.relative(1.0), kForwardTolerance) << "error " << rows.error() << " of " << rows.size();
  });
}

TEST(AttentionGolden, GradientsAgree) {
  for_each_golden([](const Problem& problem) {
    Outputs outputs = run_forward(problem);
    const auto like = [&](const char* name) {
      const Shape<4> shape = problem.tensor(name).shape();
      return Tensor({shape.begin(), shape.end()});
    };
    Tensor d_q = like("q");
    Tensor d_k = like("k");
    Tensor d_v = like("v");
    attention_backward(problem.inputs(), problem.options(),
                       {outputs.out.view<4>(), outputs.rows(), problem.tensor("d_out")},
                       {d_q.view<4>(), d_k.view<4>(), d_v.view<4>()});
    const auto expect_close = [&](const char* name, const Tensor& got, double least) {
      SCOPED_TRACE(name);
      expect_heads_close(got.view<4>(), problem.tensor(name), kGradientTolerance, least);
    };
    expect_close("d_q", d_q, kLeastGradient);
    expect_close("d_k", d_k, kLeastGradient * problem.spread());  // its terms are multiples of q
    expect_close("d_v", d_v, kLeastGradient);
  });
}

}  // namespace
}  // namespace heed::test
