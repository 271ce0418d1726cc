// The plain references in double, which the vector kernels are tested against, within 1e-10 of PyTorch's float64.
#include <gtest/gtest.h>

#include <map>
#include <span>
#include <string>
#include <vector>

#include "tests/support/activations.h"
#include "tests/support/golden_file.h"
#include "tests/support/reference_norm.h"

namespace heed::test {
namespace {

constexpr double kTolerance = 1e-10;

TEST(ReferenceGolden, ActivationsArePyTorchs) {
  const std::map<std::string, Activation> activations{{"gelu", Activation::gelu}, {"gelu_tanh", Activation::gelu_tanh},
                                                      {"relu", Activation::relu}, {"silu", Activation::silu},
                                                      {"tanh", Activation::tanh}, {"sigmoid", Activation::sigmoid}};
  for (const NnGolden& golden : load_nn_goldens("activation")) {
    SCOPED_TRACE(golden.name());
    const std::vector<double>& x = golden.doubles("in/x").values;
    const std::vector<double>& y = golden.doubles("out/y").values;
    for (size_t i = 0; i < x.size(); ++i) {
      EXPECT_NEAR(activate(activations.at(golden.name()), x[i]), y[i], kTolerance) << i;
    }
  }
}

TEST(ReferenceGolden, NormsArePyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("norm")) {
    SCOPED_TRACE(golden.name());
    const NormKind kind = golden.option<std::string>("module") == "LayerNorm" ? NormKind::layer : NormKind::rms;
    const double eps = golden.option("arguments/eps", 1e-5);
    const auto width = static_cast<size_t>(golden.option<int64_t>("arguments/normalized_shape"));
    const auto parameter = [&](const std::string& name, double otherwise) {
      return golden.has("param/" + name) ? golden.doubles("param/" + name).values
                                         : std::vector<double>(width, otherwise);
    };
    const std::vector<double> gamma = parameter("weight", 1.0), beta = parameter("bias", 0.0);
    const std::span<const double> x(golden.doubles("in/x").values);
    for (size_t begin = 0; begin < x.size(); begin += width) {
      const ReferenceNormRow<double> row = reference_norm<double>(kind, x.subspan(begin, width), eps);
      std::vector<double> g;
      for (size_t j = 0; j < width; ++j) {
        g.push_back(golden.doubles("in/d_y").values[begin + j] * gamma[j]);
        EXPECT_NEAR(row.normed[j] * gamma[j] + beta[j], golden.doubles("out/y").values[begin + j], kTolerance);
      }
      const std::vector<double> d_x = reference_norm_backward<double>(kind, row, g);
      for (size_t j = 0; j < width; ++j) EXPECT_NEAR(d_x[j], golden.doubles("d/x").values[begin + j], kTolerance);
    }
  }
}

}  // namespace
}  // namespace heed::test
