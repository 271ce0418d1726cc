// Small modules beside PyTorch's: outputs and all gradients within 1e-5 of the largest value.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <vector>

#include "heed/autograd/layer_ops.h"
#include "heed/nn/embedding.h"
#include "heed/nn/feed_forward.h"
#include "heed/nn/linear.h"
#include "heed/nn/norm.h"
#include "heed/nn/patch_embedding.h"
#include "heed/nn/positions.h"
#include "tests/support/module_golden.h"

namespace heed::test {
namespace {

TEST(ModuleGolden, LinearIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("linear")) {
    nn::Linear linear(golden.option<int64_t>("arguments/in_features"), golden.option<int64_t>("arguments/out_features"),
                      {.bias = golden.option<bool>("arguments/bias")});
    expect_golden(golden, nn::parameters(linear), [&](GoldenInputs& in) { return linear(in["x"]); });
  }
}

TEST(ModuleGolden, EmbeddingIsPyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("embedding")) {
    nn::EmbeddingOptions options;
    if (golden.has_option("arguments/padding_idx"))
      options.padding_idx = golden.option<int64_t>("arguments/padding_idx");
    nn::Embedding embedding(golden.option<int64_t>("arguments/num_embeddings"),
                            golden.option<int64_t>("arguments/embedding_dim"), options);
    expect_golden(golden, nn::parameters(embedding),
                  [&](GoldenInputs& in) { return embedding(in.tape(), golden.ids("in/ids")); });
  }
}

TEST(ModuleGolden, NormsArePyTorchs) {
  for (const NnGolden& golden : load_nn_goldens("norm")) {
    const auto width = golden.option<int64_t>("arguments/normalized_shape");
    const bool affine = golden.option("arguments/elementwise_affine", true);
    if (golden.option<std::string>("module") == "LayerNorm") {
      nn::LayerNorm norm(width, {.eps = static_cast<float>(golden.option("arguments/eps", 1e-5)),
                                 .affine = affine,
                                 .bias = golden.option("arguments/bias", true)});
      expect_golden(golden, nn::parameters(norm), [&](GoldenInputs& in) { return norm(in["x"]); });
    } else {
      // The default is the epsilon of f32, which the golden states.
      nn::RMSNormOptions options{.eps = static_cast<float>(golden.option<double>("arguments/eps")), .affine = affine};
      if (golden.name() == "rms_norm") options.eps.reset();
      nn::RMSNorm norm(width, options);
      expect_golden(golden, nn::parameters(norm), [&](GoldenInputs& in) { return norm(in["x"]); });
    }
  }
}

TEST(ModuleGolden, ActivationsArePyTorchs) {
  const std::map<std::string, Var (*)(const Var&)> activations{
      {"gelu", gelu}, {"gelu_tanh", gelu_tanh}, {"relu", relu}, {"silu", silu}, {"tanh", tanh}, {"sigmoid", sigmoid}};
  const std::vector<NnGolden> goldens = load_nn_goldens("activation");
  EXPECT_EQ(goldens.size(), activations.size());
  for (const NnGolden& golden : goldens) {
    expect_golden(golden, {}, [&](GoldenInputs& in) { return activations.at(golden.name())(in["x"]); });
  }
}

TEST(ModuleGolden, GatedFeedForwardIsLlamas) {
  for (const NnGolden& golden : load_nn_goldens("swiglu")) {
    nn::GatedFeedForward block(golden.option<int64_t>("arguments/width"), golden.option<int64_t>("arguments/hidden"),
                               {.bias = golden.option<bool>("arguments/bias")});
    expect_golden(golden, nn::parameters(block), [&](GoldenInputs& in) { return block(in["x"]); });
  }
}

TEST(ModuleGolden, SinusoidalPositionsAreThePapers) {
  for (const NnGolden& golden : load_nn_goldens("positions")) {
    const nn::SinusoidalPositions positions(16, golden.option<int64_t>("arguments/width"));
    expect_golden(golden, {}, [&](GoldenInputs& in) { return positions(in["x"]); });
  }
}

struct Patches {
  nn::PatchEmbedding proj;
  void parts(auto&& visit) { visit("proj", proj); }
};

TEST(ModuleGolden, PatchEmbeddingIsAConvolutionOfPyTorch) {
  for (const NnGolden& golden : load_nn_goldens("patches")) {
    Patches patches{{golden.option<int64_t>("arguments/channels"),
                     golden.option<int64_t>("arguments/embed_dim"),
                     golden.option<int64_t>("arguments/patch"),
                     {.bias = golden.option<bool>("arguments/bias")}}};
    expect_golden(golden, nn::parameters(patches), [&](GoldenInputs& in) { return patches.proj(in["x"]); });
  }
}

}  // namespace
}  // namespace heed::test
