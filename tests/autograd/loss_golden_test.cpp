// The losses beside PyTorch's, values and gradients within 1e-5 of the largest, and their plain references within
// 1e-10. Cross-entropy of probabilities instead of labels is not among Heed's losses.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "heed/autograd/loss_ops.h"
#include "heed/core/dims.h"
#include "tests/support/loss_reference.h"
#include "tests/support/module_golden.h"

namespace heed::test {
namespace {

// What a case has beside x. The options refer to it.
struct LossInputs {
  explicit LossInputs(const NnGolden& golden) {
    if (golden.has("in/weight")) weight = golden.tensor("in/weight");
    if (golden.has("in/pos_weight")) pos_weight = golden.tensor("in/pos_weight");
    const auto name = golden.option<std::string>("arguments/reduction");
    reduction = name == "mean" ? LossReduction::mean : name == "sum" ? LossReduction::sum : LossReduction::none;
    ignore_index = golden.option<int64_t>("arguments/ignore_index", -100);
    cross_entropy = {class_weight(), ignore_index, static_cast<float>(golden.option("arguments/label_smoothing", 0.0)),
                     reduction};
    nll = {class_weight(), ignore_index, reduction};
    kl = {golden.option("arguments/log_target", false), name == "batchmean" ? KlReduction::batch_mean
                                                        : name == "mean"    ? KlReduction::mean
                                                        : name == "sum"     ? KlReduction::sum
                                                                            : KlReduction::none};
    binary.reduction = reduction;
    const Shape<2> shape = Dims(golden.doubles("in/x").shape).shape<2>();
    if (weight.count() > 0) binary.weight = {weight.values().data(), shape, {0, 1}};
    if (pos_weight.count() > 0) binary.pos_weight = pos_weight.view<1>();
  }

  View<const float, 1> class_weight() const { return weight.count() > 0 ? weight.view<1>() : View<const float, 1>(); }

  Tensor weight, pos_weight;
  LossReduction reduction = LossReduction::mean;
  int64_t ignore_index = -100;
  CrossEntropyOptions cross_entropy;
  NllOptions nll;
  KlOptions kl;
  BinaryCrossEntropyOptions binary;
};

bool has_labels(const NnGolden& golden) {
  const auto function = golden.option<std::string>("function");
  return function == "cross_entropy" || function == "nll_loss";
}

bool has_probabilities(const NnGolden& golden) { return golden.name().starts_with("cross_entropy_probabilities"); }

Var loss_of(GoldenInputs& in, const LossInputs& given) {
  const NnGolden& golden = in.golden();
  const auto function = golden.option<std::string>("function");
  const Var x = in["x"];
  if (function == "cross_entropy") return cross_entropy(x, golden.ids("in/target").values(), given.cross_entropy);
  if (function == "nll_loss") return nll_loss(x, golden.ids("in/target").values(), given.nll);
  const Var target = in.tape().constant(golden.tensor("in/target"));
  if (function == "kl_div") return kl_div(x, target, given.kl);
  if (function == "mse_loss") return mse_loss(x, target, given.reduction);
  return binary_cross_entropy_with_logits(x, target, given.binary);
}

TEST(LossGolden, LossesArePyTorchs) {
  int seen = 0;
  for (const NnGolden& golden : load_nn_goldens("loss")) {
    if (has_probabilities(golden)) continue;
    const LossInputs given(golden);
    expect_golden(golden, {}, [&](GoldenInputs& in) { return loss_of(in, given); }, {.constants = {"target"}});
    ++seen;
  }
  EXPECT_EQ(seen, 36 + 12 + 8 + 12 + 3);
}

// The logits come out of a linear map that changes nothing.
TEST(LossGolden, CrossEntropyFusedWithTheLinearMapIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("loss")) {
    const LossInputs given(golden);
    if (golden.option<std::string>("function") != "cross_entropy" || has_probabilities(golden) ||
        given.reduction == LossReduction::none) {
      continue;
    }
    const int64_t classes = golden.doubles("in/x").shape[1];
    Tensor identity({classes, classes});
    for (int64_t c = 0; c < classes; ++c) identity.view<2>()(c, c) = 1.0F;
    expect_golden(golden, {}, [&](GoldenInputs& in) {
      const Var weight = in.tape().constant(identity);
      return linear_cross_entropy(in["x"], weight, {}, golden.ids("in/target").values(), given.cross_entropy);
    });
  }
}

// The reduction of losses of elements.
std::vector<double> reduced(const std::vector<double>& losses, KlReduction reduction, int64_t rows) {
  if (reduction == KlReduction::none) return losses;
  double sum = 0.0;
  for (const double loss : losses) sum += loss;
  if (reduction == KlReduction::mean) sum /= static_cast<double>(losses.size());
  if (reduction == KlReduction::batch_mean) sum /= static_cast<double>(rows);
  return {sum};
}

std::vector<double> reference_loss(const NnGolden& golden, const LossInputs& given) {
  const auto function = golden.option<std::string>("function");
  const Doubles& x = golden.doubles("in/x");
  ReferenceRows<double> rows(x.shape[0], x.shape[1]);
  rows.values = x.values;
  if (has_labels(golden)) {
    const View<const int64_t, 1> labels = golden.ids("in/target").view<1>();
    return function == "cross_entropy" ? cross_entropy_reference(rows, labels, given.cross_entropy)
                                       : nll_reference(rows, labels, given.nll);
  }
  const std::vector<double>& target = golden.doubles("in/target").values;
  const auto column_of = [&](const Tensor& of, size_t i) {
    return of.count() == 0 ? 1.0 : static_cast<double>(of.values()[i % static_cast<size_t>(rows.columns)]);
  };
  std::vector<double> losses;
  for (size_t i = 0; i < target.size(); ++i) {
    const double value = x.values[i];
    losses.push_back(function == "kl_div" ? kl_reference(value, target[i], given.kl.log_target)
                     : function == "mse_loss"
                         ? (value - target[i]) * (value - target[i])
                         : binary_cross_entropy_reference(value, target[i], column_of(given.weight, i),
                                                          column_of(given.pos_weight, i)));
  }
  return reduced(losses, given.kl.reduction, rows.rows);
}

TEST(LossGolden, PlainReferencesArePyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("loss")) {
    if (has_probabilities(golden)) continue;
    SCOPED_TRACE(golden.name());
    const LossInputs given(golden);
    const std::vector<double> losses = reference_loss(golden, given);
    const std::vector<double>& expected = golden.doubles("out/y").values;
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-10) << i;
  }
}

}  // namespace
}  // namespace heed::test
