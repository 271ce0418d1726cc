// The multi-head layer against torch.nn.MultiheadAttention in float64 (tools/goldens/make_multihead.py).
#include <gtest/gtest.h>

#include <map>
#include <sstream>
#include <string>
#include <vector>

#include "heed/attention/multihead.h"
#include "tests/support/closeness.h"
#include "tests/support/every_isa.h"
#include "tests/support/golden.h"

namespace heed::test {
namespace {

constexpr double kForwardTolerance = 2e-6;
constexpr double kGradientTolerance = 1e-5;
// Gradients smaller than this are what is left of larger terms that cancelled: that of k's bias is 0 in theory.
constexpr double kLeastGradient = 0.1;

Mask mask_of(const std::string& text) {
  std::istringstream words(text);
  std::string name;
  words >> name;
  if (name == "causal") return Mask::causal();
  if (name == "lengths") {
    std::vector<int64_t> lengths;
    for (int64_t length = 0; words >> length;) lengths.push_back(length);
    return Mask::lengths(lengths);
  }
  EXPECT_EQ(name, "none");
  return {};
}

// A golden layer. Tensors have PyTorch's names; `prefix` "d_" gives their gradients.
class Layer {
 public:
  explicit Layer(const GoldenCase& golden) : golden_(golden) {
    options_.heads = std::stoll(golden.texts.at("heads"));
    options_.attention.mask = mask_of(golden.texts.at("mask"));
    for (const auto& [name, tensor] : golden.tensors) {
      if (!name.starts_with("d_") && name != "y") gradients_["d_" + name] = Tensor(tensor.shape());
    }
    y_ = Tensor(golden.tensors.at("y").shape());
  }

  void forward() { multihead_forward(inputs(), parameters(), options_, state_, y_.view<3>()); }
  void forward_packed() { multihead_forward(inputs(), PackedMultiHead(parameters()), options_, state_, y_.view<3>()); }
  void backward() {
    const MultiHeadGradients all{d_input("x"), d_input("key"), d_input("value"), from<float>(gradients_, "d_")};
    multihead_backward(inputs(), parameters(), options_, state_, golden_.tensors.at("d_y").view<3>(), all);
  }

  void expect_y() const { expect_close("y", y_, kForwardTolerance, 0.0); }
  void expect_gradients() const {
    for (const auto& [name, gradient] : gradients_) expect_close(name, gradient, kGradientTolerance, kLeastGradient);
  }

 private:
  MultiHeadInputs inputs() const { return {input("x"), input("key"), input("value")}; }
  MultiHeadParameters<const float> parameters() const { return from<const float>(golden_.tensors, ""); }

  // What plays the part of "x", "key" or "value" in this case.
  std::string player(const std::string& part) const {
    if (golden_.tensors.contains(part)) return part;
    return golden_.tensors.contains("context") ? "context" : "x";
  }
  View<const float, 3> input(const std::string& part) const { return golden_.tensors.at(player(part)).view<3>(); }
  View<float, 3> d_input(const std::string& part) { return gradients_.at("d_" + player(part)).view<3>(); }

  // The parameters, or their gradients: in_proj_weight, or q_, k_ and v_proj_weight; in_proj_bias is that of all three.
  template <class T, class Tensors>
  static MultiHeadParameters<T> from(Tensors& tensors, const std::string& prefix) {
    const auto matrix = [&](const char* name) { return tensors.at(prefix + name).template view<2>(); };
    MultiHeadParameters<T> p;
    p.out = matrix("out_proj.weight");
    const int64_t width = p.out.size(0);
    if (tensors.contains(prefix + "in_proj_weight")) {
      const View<T, 2> all = matrix("in_proj_weight");
      p.q = all.slice(0, 0, width);
      p.k = all.slice(0, width, width);
      p.v = all.slice(0, 2 * width, width);
    } else {
      p.q = matrix("q_proj_weight");
      p.k = matrix("k_proj_weight");
      p.v = matrix("v_proj_weight");
    }
    if (!tensors.contains(prefix + "in_proj_bias")) return p;
    const View<T, 1> biases = tensors.at(prefix + "in_proj_bias").template view<1>();
    p.q_bias = biases.slice(0, 0, width);
    p.k_bias = biases.slice(0, width, width);
    p.v_bias = biases.slice(0, 2 * width, width);
    p.out_bias = tensors.at(prefix + "out_proj.bias").template view<1>();
    return p;
  }

  void expect_close(const std::string& name, const Tensor& got, double tolerance, double least) const {
    const Tensor& expected = golden_.tensors.at(name);
    ASSERT_EQ(got.shape(), expected.shape());
    Closeness closeness;
    for (size_t i = 0; i < got.values().size(); ++i) {
      closeness.add(got.values()[i], static_cast<double>(expected.values()[i]));
    }
    EXPECT_LE(closeness.relative(least), tolerance)
        << name << ": error " << closeness.error() << ", largest reference " << closeness.size();
  }

  const GoldenCase& golden_;
  MultiHeadOptions options_;
  MultiHeadState state_;
  Tensor y_;
  std::map<std::string, Tensor> gradients_;  // by name, "d_" first
};

// test(layer) for each golden layer on every instruction set.
template <class Test>
void for_each_golden(Test test) {
  const std::vector<GoldenCase> cases = load_goldens("multihead.txt");
  ASSERT_GE(cases.size(), 10U);
  on_every_isa([&] {
    for (const GoldenCase& golden : cases) {
      SCOPED_TRACE(golden.name);
      Layer layer(golden);
      test(layer);
    }
  });
}

TEST(MultiHeadGolden, ForwardAgrees) {
  for_each_golden([](Layer& layer) {
    layer.forward();
    layer.expect_y();
  });
}

TEST(MultiHeadGolden, ForwardWithPackedWeightsAgrees) {
  for_each_golden([](Layer& layer) {
    layer.forward_packed();
    layer.expect_y();
  });
}

TEST(MultiHeadGolden, EveryGradientAgrees) {
  for_each_golden([](Layer& layer) {
    layer.forward();
    layer.backward();
    layer.expect_gradients();
  });
}

}  // namespace
}  // namespace heed::test
