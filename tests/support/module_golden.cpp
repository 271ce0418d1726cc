#include "tests/support/module_golden.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "heed/core/error.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"

namespace heed::test {

void expect_near_golden(const std::string& name, std::span<const float> got, const Doubles& expected,
                        double tolerance) {
  ASSERT_EQ(got.size(), expected.values.size()) << name;
  Closeness closeness;
  for (size_t i = 0; i < got.size(); ++i) closeness.add(got[i], expected.values[i]);
  EXPECT_LE(closeness.relative(1e-6), tolerance)
      << name << ": error " << closeness.error() << ", largest reference " << closeness.size();
}

Var GoldenInputs::operator[](const std::string& name) {
  const auto found = leaves_.find(name);
  if (found != leaves_.end()) return found->second;
  return leaves_.emplace(name, tape_.leaf(golden_.tensor("in/" + name))).first->second;
}

Mask golden_mask(const NnGolden& golden, std::span<const std::string> arguments) {
  Mask result;
  for (const std::string& argument : arguments) {
    const std::string path = "masks/" + argument;
    if (!golden.has_option(path)) continue;
    if (argument.ends_with("key_padding_mask")) {
      result = result & Mask::lengths(golden.option<std::vector<int64_t>>(path));
    } else {
      check(golden.option<std::string>(path) == "causal", "golden_mask", golden.name(), " has another ", argument);
      result = result & Mask::causal();
    }
  }
  return result;
}

namespace {

void expect_same_names(const NnGolden& golden, const std::vector<nn::NamedParameter>& parameters) {
  std::vector<std::string> names, expected = golden.names("param/");
  for (const nn::NamedParameter& each : parameters) {
    names.push_back(each.name);
    if (golden.has("param/" + each.name)) {
      EXPECT_EQ(each.parameter->shape().to_vector(), golden.doubles("param/" + each.name).shape) << each.name;
    }
  }
  std::sort(names.begin(), names.end());
  std::sort(expected.begin(), expected.end());
  EXPECT_EQ(names, expected);
}

}  // namespace

void expect_golden(const NnGolden& golden, const std::vector<nn::NamedParameter>& parameters,
                   const std::function<Var(GoldenInputs&)>& call, const GoldenOptions& options) {
  SCOPED_TRACE(golden.name());
  const GoldenParameter find =
      options.parameter ? options.parameter
                        : [&](const std::string& kind, const std::string& name) { return golden.doubles(kind + name); };
  if (!options.parameter) expect_same_names(golden, parameters);
  for (const nn::NamedParameter& each : parameters) {
    const Doubles from = find("param/", each.name);
    ASSERT_EQ(each.parameter->count(), static_cast<int64_t>(from.values.size())) << each.name;
    std::transform(from.values.begin(), from.values.end(), each.parameter->values().begin(),
                   [](double value) { return static_cast<float>(value); });
  }
  on_every_isa([&] {
    for (const nn::NamedParameter& each : parameters) each.parameter->zero_gradient();
    GoldenInputs inputs(golden);
    const Var y = call(inputs);
    ASSERT_EQ(y.shape().to_vector(), golden.doubles("out/y").shape);
    expect_near_golden("y", y.values(), golden.doubles("out/y"), options.tolerance);
    y.backward(golden.tensor("in/d_y").values());
    for (const std::string& name : golden.names("d/")) {
      if (std::count(options.constants.begin(), options.constants.end(), name) > 0) continue;
      ASSERT_TRUE(inputs.given().contains(name)) << name << " was not used";
      expect_near_golden("d_" + name, inputs[name].gradients(), golden.doubles("d/" + name), options.tolerance);
    }
    for (const nn::NamedParameter& each : parameters) {
      expect_near_golden("grad of " + each.name, each.parameter->gradient(), find("grad/", each.name),
                         options.tolerance);
    }
  });
}

}  // namespace heed::test
