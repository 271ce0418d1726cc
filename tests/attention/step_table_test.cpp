// The table of steps is whole, in order, and says what each step comes from.
#include "heed/attention/step_table.h"

#include <gtest/gtest.h>

#include <set>

#include "tests/support/expect_error.h"

namespace heed {
namespace {

using enum AttentionStep;

TEST(StepTable, NamesGoBothWays) {
  for (const AttentionStep step : all_steps()) {
    EXPECT_EQ(find_step(step_name(step)), step);
    EXPECT_EQ(step_of_gradient(gradient_name(step)), step);
  }
  EXPECT_EQ(all_steps().size(), kStepCount);
  EXPECT_EQ(step_name(w_q), "W_Q");
  EXPECT_EQ(step_name(weights), "weights");
  EXPECT_EQ(gradient_name(w_o), "W_O.grad");
  EXPECT_EQ(find_step("wights"), std::nullopt);
  test::expect_error([] { step_named("wights"); }, {"step_named", "'wights'", "masked, weights, dropped, heads"});
  test::expect_error([] { step_of_gradient("weights"); }, {"'weights'", "gradient"});
}

TEST(StepTable, EveryStepHasAShapeAndWhatIsComputedASourceAFormulaAndAMeaning) {
  int number = 0;
  for (const AttentionStep step : all_steps()) {
    const StepRow& row = step_row(step);
    SCOPED_TRACE(row.name);
    EXPECT_FALSE(row.dims.empty());
    EXPECT_EQ(row.sources.empty(), row.kind != StepKind::computed && !row.optional);
    EXPECT_EQ(row.formula.starts_with(row.name), row.kind != StepKind::parameter);
    EXPECT_EQ(row.meaning.empty(), row.kind == StepKind::parameter);
    EXPECT_GE(row.number, number);
    number = row.number;
  }
}

TEST(StepTable, TheShapeOfAProductIsThatOfItsFactors) {
  for (const AttentionStep step : {q, k, v, out}) {
    const StepRow& row = step_row(step);
    SCOPED_TRACE(row.name);
    const StepRow& input = step_row(row.sources[0]);
    const StepRow& weight = step_row(row.sources[1]);
    const StepRow& bias = step_row(row.sources[2]);
    EXPECT_EQ(input.dims.back(), weight.dims[0]);
    EXPECT_EQ(weight.dims[1], bias.dims[0]);
    EXPECT_EQ(input.dims[1], row.dims[1]);  // a row for each token
    const auto columns = row.dims.subspan(2);
    std::string name(dim_name(columns[0]));
    if (columns.size() == 2) name.append("·").append(dim_name(columns[1]));
    EXPECT_EQ(dim_name(weight.dims[1]), name);
  }
}

TEST(StepTable, StepsOfANumberForEachQueryAndKeyLieBetweenScoresAndHeads) {
  for (const AttentionStep step : all_steps()) {
    EXPECT_EQ(is_query_by_key(step), step >= scores && step < heads) << step_name(step);
  }
}

TEST(StepTable, ASourceThatIsNotTakenIsReplacedByItsOwn) {
  const auto sources = [](AttentionStep step, std::set<AttentionStep> absent) {
    return taken_sources(step, [=](AttentionStep each) { return !absent.contains(each); });
  };
  using Steps = std::vector<AttentionStep>;
  EXPECT_EQ(sources(weights, {}), Steps{masked});
  EXPECT_EQ(sources(weights, {masked}), Steps{biased});
  EXPECT_EQ(sources(weights, {masked, biased, capped}), Steps{scaled});
  EXPECT_EQ(sources(heads, {dropped}), (Steps{weights, v}));
  EXPECT_EQ(sources(k, {context, b_k}), (Steps{x, w_k}));
  EXPECT_EQ(sources(k, {}), (Steps{context, w_k, b_k}));
  EXPECT_EQ(sources(scaled, {scores}), Steps{});  // every call takes it: q does not stand for it
}

TEST(StepTable, FormulasAreFilledIn) {
  const auto formula = [](AttentionStep step, std::vector<AttentionStep> sources, const FormulaTerms& terms) {
    return step_formula(step, sources, terms);
  };
  FormulaTerms terms;
  terms.cap = "30";
  terms.added = " + bias";
  terms.hidden = "-∞";
  terms.normaliser = "softmax";
  EXPECT_EQ(formula(k, {x, w_k}, terms), "k = x W_K");
  EXPECT_EQ(formula(k, {context, w_k, b_k}, terms), "k = context W_K + b_K");
  EXPECT_EQ(formula(capped, {scaled}, terms), "capped = 30 · tanh(scaled / 30)");
  EXPECT_EQ(formula(biased, {capped}, terms), "biased = capped + bias");
  EXPECT_EQ(formula(masked, {scaled}, terms), "masked = scaled, -∞ where a key is hidden");
  EXPECT_EQ(formula(weights, {masked}, terms), "weights = softmax(masked)");
  EXPECT_EQ(formula(heads, {dropped, v}, terms), "heads = dropped v");
  EXPECT_EQ(given_formula(q), "q, as given");
  for (const AttentionStep step : all_steps()) {
    EXPECT_EQ(formula(step, {x, w_q, b_q}, terms).find('{'), std::string::npos) << step_name(step);
  }
}

}  // namespace
}  // namespace heed
