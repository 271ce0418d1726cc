// What the layer takes and what it refuses: strides, empty sizes, shapes that do not fit, states of another call.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "heed/core/overlap.h"
#include "heed/parallel/parallel_for.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/attention_case.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/layer_case.h"

namespace heed::test {
namespace {

void expect_refused(const std::string& function, const std::string& rule, const std::function<void()>& call) {
  expect_error(function, call, {rule});
}

// Every result of the layer, to tell whether anything was written.
std::vector<float> all_results(const Layer& layer) {
  std::vector<float> all;
  for (const Tensor* tensor : {&layer.y, &layer.d_x[0], &layer.d_x[1], &layer.d_x[2], &layer.d_weight, &layer.d_bias,
                               &layer.d_w_out, &layer.d_out_bias}) {
    all.insert(all.end(), tensor->values().begin(), tensor->values().end());
  }
  return all;
}

// The list of parameters, which all that walks over them goes by, has every member of the structs once, in pairs that
// belong together.
TEST(MultiHeadInput, TheListHasEveryParameterOnce) {
  const auto bytes_listed = [](auto of) {
    size_t bytes = 0;
    std::set<const void*> places;
    visit_parameters(
        [&](const char*, auto& member) {
          bytes += sizeof(member);
          places.insert(&member);
        },
        of);
    EXPECT_EQ(places.size(), 8U);
    return bytes;
  };
  EXPECT_EQ(bytes_listed(MultiHeadParameters<float>()), sizeof(MultiHeadParameters<float>));
  EXPECT_EQ(bytes_listed(PackedMultiHead()), sizeof(PackedMultiHead));
  Layer layer((LayerSizes()));
  const MultiHeadParameters<float> gradients = layer.gradients().parameters;
  const MultiHeadParameters<const float> read = gradients;
  std::string names;
  visit_parameters(
      [&](const char* name, const auto& a, const auto& b) {
        names += std::string(name) + " ";
        EXPECT_TRUE(same_view(a, b)) << name;
      },
      gradients, read);
  EXPECT_EQ(names, "W_Q q_bias W_K k_bias W_V v_bias W_O out_bias ");
}

TEST(MultiHeadInput, RotaryTablesThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  Layer layer(self_sizes());
  layer.run();
  const std::vector<float> before = all_results(layer);
  const std::vector<float> projections = floats(layer.state.projections[0]);
  const auto refused = [&](const LayerRotary& rotary, const std::string& rule) {
    layer.options.rotary = rotary;
    expect_refused("multihead_forward", rule, [&] { layer.forward(); });
    expect_refused("multihead_backward", rule, [&] { layer.backward(); });
    EXPECT_TRUE(same_bits(before, all_results(layer)));
    EXPECT_TRUE(same_bits(projections, floats(layer.state.projections[0])));
  };
  const RotaryTable short_table({.width = 2, .positions = 4});
  refused({&short_table, {}, {}}, "the tokens of q stand at positions 0 … 4");
  const RotaryTable table({.width = 2, .positions = 5});
  refused({&table, {}, {.offset = 1}}, "the tokens of k stand at positions 1 … 5");
  const RotaryTable wide({.width = 4, .positions = 5});
  refused({&wide, {}, {}}, "rotates 4 elements of 3");
}

TEST(MultiHeadInput, SizesThatDoNotFitAreRefused) {
  Layer layer(self_sizes());
  const MultiHeadParameters<const float> p = layer.parameters();
  const auto refused = [&](const MultiHeadParameters<const float>& bad, const MultiHeadOptions& options,
                           const std::string& rule) {
    expect_refused("multihead_forward", rule,
                   [&] { multihead_forward(layer.inputs(), bad, options, layer.state, layer.y.view<3>()); });
  };
  MultiHeadOptions options = layer.options;
  options.kv_heads = 3;
  refused(p, options, "must be a multiple");
  MultiHeadParameters<const float> bad = p;
  bad.k = bad.k.slice(0, 0, 5);
  refused(bad, layer.options, "W_K");
  bad = p;
  bad.out = bad.out.slice(1, 0, 3);
  refused(bad, layer.options, "W_O");
  bad = p;
  bad.q_bias = bad.q_bias.slice(0, 0, 2);
  refused(bad, layer.options, "q_bias");
  bad = p;
  bad.out = {};
  refused(bad, layer.options, "out_bias without W_O");
  bad = p;
  bad.v = {};
  refused(bad, layer.options, "must be given");
}

TEST(MultiHeadInput, HeadsThatWereNotGivenAreRefusedByName) {
  Layer layer(self_sizes());
  EXPECT_EQ(MultiHeadOptions().heads, 0);
  expect_refused("multihead_forward", "options.heads is 0; give the number of query heads",
                 [&] { multihead_forward(layer.inputs(), layer.parameters(), {}, layer.state, layer.y.view<3>()); });
}

TEST(MultiHeadInput, ViewsThatWereNeverSetAreRefusedByName) {
  Layer layer(self_sizes());
  const auto refused = [&](const MultiHeadInputs& inputs, View<float, 3> y, const std::string& name) {
    expect_refused("multihead_forward", name + " is a null view without a shape",
                   [&] { multihead_forward(inputs, layer.parameters(), layer.options, layer.state, y); });
  };
  MultiHeadInputs inputs = layer.inputs();
  refused({}, layer.y.view<3>(), "query");
  inputs.value = {};
  refused(inputs, layer.y.view<3>(), "value");
  refused(layer.inputs(), {}, "y");
}

TEST(MultiHeadInput, MasksAndScalesThatDoNotFitAreRefusedBeforeAnythingIsWritten) {
  Layer layer(self_sizes());
  layer.run();
  for (Tensor* tensor : {&layer.y, &layer.d_weight, &layer.d_w_out}) std::ranges::fill(tensor->values(), -1.0F);
  const std::vector<float> before = all_results(layer);
  const std::vector<float> d_x = floats(layer.d_x[0]);
  MultiHeadOptions options = layer.options;
  const auto refused = [&](const std::string& rule) {
    expect_refused("multihead_forward", rule, [&] {
      multihead_forward(layer.inputs(), layer.parameters(), options, layer.state, layer.y.view<3>());
    });
    expect_refused("multihead_backward", rule, [&] {
      multihead_backward(layer.inputs(), layer.parameters(), options, layer.state, layer.d_y.view<3>(),
                         layer.gradients());
    });
    EXPECT_TRUE(same_bits(all_results(layer), before));
  };
  options.attention.mask = Mask::lengths({1, 2, 3});
  refused("lengths");
  options.attention.mask = {};
  options.attention.scale = std::numeric_limits<float>::quiet_NaN();
  refused("scale");
  // The state is still that of the call before.
  layer.backward();
  EXPECT_TRUE(same_bits(floats(layer.d_x[0]), d_x));
}

TEST(MultiHeadInput, AStateOfOtherSizesIsRefused) {
  Layer layer({});
  expect_refused("multihead_backward", "call it first", [&] { layer.backward(); });
  layer.forward();
  LayerSizes longer;
  longer.t_k += 3;
  Layer other(longer);
  const std::vector<float> before = all_results(other);
  expect_refused("multihead_backward", "call it first", [&] {
    multihead_backward(other.inputs(), other.parameters(), other.options, layer.state, other.d_y.view<3>(),
                       other.gradients());
  });
  EXPECT_TRUE(same_bits(all_results(other), before));
}

TEST(MultiHeadInput, RowsThatAreNotEvenlySpacedAreRefused) {
  Layer layer({});
  layer.forward();
  const LayerSizes& s = layer.s;
  Tensor roomy({s.batch, s.t_q + 1, s.c_q});
  const View<float, 3> uneven = roomy.view<3>().slice(1, 0, s.t_q);
  MultiHeadInputs inputs = layer.inputs();
  inputs.query = uneven;
  expect_refused("multihead_forward", "evenly spaced",
                 [&] { multihead_forward(inputs, layer.parameters(), layer.options, layer.state, layer.y.view<3>()); });
  MultiHeadGradients gradients = layer.gradients();
  gradients.query = uneven;
  expect_refused("multihead_backward", "evenly spaced", [&] {
    multihead_backward(layer.inputs(), layer.parameters(), layer.options, layer.state, layer.d_y.view<3>(), gradients);
  });
}

// The last token of each item of a longer batch: its rows are far apart, and still evenly spaced.
TEST(MultiHeadInput, OneTokenOfEachItemIsTakenInPlace) {
  LayerSizes sizes = self_sizes();
  sizes.batch = 3;
  sizes.t_q = sizes.t_k = 1;
  Layer layer(sizes);
  layer.run();
  Tensor x({3, 4, sizes.c_q});
  Tensor d_x({3, 4, sizes.c_q});
  const View<float, 3> last = x.view<3>().slice(1, 3, 1);
  for (int64_t b = 0; b < 3; ++b) {
    for (int64_t c = 0; c < sizes.c_q; ++c) last(b, 0, c) = layer.x[0].view<3>()(b, 0, c);
  }
  Tensor y(layer.y.shape());
  MultiHeadGradients gradients = layer.gradients();
  gradients.query = gradients.key = gradients.value = d_x.view<3>().slice(1, 3, 1);
  multihead_forward(MultiHeadInputs::self(last), layer.parameters(), layer.options, layer.state, y.view<3>());
  multihead_backward(MultiHeadInputs::self(last), layer.parameters(), layer.options, layer.state, layer.d_y.view<3>(),
                     gradients);
  EXPECT_TRUE(same_bits(floats(y), floats(layer.y)));
  EXPECT_TRUE(same_bits(values_of(View<const float, 3>(gradients.query.view)), floats(layer.d_x[0])));
}

TEST(MultiHeadInput, WithoutOutputProjectionAnyYIsWrittenAndAStridedGradientIsRefused) {
  LayerSizes sizes = self_sizes();
  sizes.w_o = sizes.biases = false;
  Layer layer(sizes);
  layer.forward();
  Tensor wide({sizes.batch, sizes.t_q, sizes.out(), 2});
  const View<float, 4> all = wide.view<4>();
  const View<float, 3> every_other(all.data(), layer.y.view<3>().shape(), {all.stride(0), all.stride(1), 2});
  multihead_forward(layer.inputs(), layer.parameters(), layer.options, layer.state, every_other);
  EXPECT_TRUE(same_bits(values_of(View<const float, 3>(every_other)), floats(layer.y)));
  expect_refused("multihead_backward", "contiguous", [&] {
    multihead_backward(layer.inputs(), layer.parameters(), layer.options, layer.state, every_other, layer.gradients());
  });
}

// Without keys y is W_O's bias; nothing flows back to the projections.
void expect_nothing_seen(const LayerSizes& sizes) {
  SCOPED_TRACE(::testing::Message() << "batch " << sizes.batch << ", " << sizes.t_q << " queries, " << sizes.t_k
                                    << " keys");
  Layer layer(sizes);
  for (Tensor* tensor : {&layer.d_weight, &layer.d_bias}) std::ranges::fill(tensor->values(), -1.0F);
  layer.run();
  for (size_t i = 0; i < layer.y.values().size(); ++i) {
    EXPECT_EQ(layer.y.values()[i], layer.out_bias.values()[i % layer.out_bias.values().size()]);
  }
  for (const float value : layer.d_weight.values()) EXPECT_EQ(value, 0.0F);
  for (const float value : layer.d_bias.values()) EXPECT_EQ(value, 0.0F);
}

TEST(MultiHeadInput, NoItemsNoQueriesAndNoKeys) {
  on_every_isa([] {
    for (LayerSizes sizes : {LayerSizes(), self_sizes()}) {
      sizes.batch = 0;
      expect_nothing_seen(sizes);
    }
    LayerSizes sizes;
    sizes.t_q = 0;
    expect_nothing_seen(sizes);
    sizes = {};
    sizes.t_k = 0;
    expect_nothing_seen(sizes);
    sizes = self_sizes();
    sizes.t_q = sizes.t_k = 0;
    expect_nothing_seen(sizes);
  });
}

TEST(MultiHeadInput, GradientsThatAreNotAskedForAreLeftOut) {
  for (const bool self : {true, false}) {
    Layer layer(self ? self_sizes() : LayerSizes());
    layer.run();
    Layer part(layer.s);
    part.forward();
    MultiHeadGradients gradients;
    gradients.parameters.v = part.gradients().parameters.v;
    gradients.parameters.q_bias = part.gradients().parameters.q_bias;
    multihead_backward(part.inputs(), part.parameters(), part.options, part.state, part.d_y.view<3>(), gradients);
    const MultiHeadGradients expected = layer.gradients();
    for (int64_t i = 0; i < gradients.parameters.v.size(0); ++i) {
      for (int64_t j = 0; j < gradients.parameters.v.size(1); ++j) {
        EXPECT_EQ(gradients.parameters.v(i, j), expected.parameters.v(i, j));
      }
    }
    for (int64_t i = 0; i < gradients.parameters.q_bias.size(0); ++i) {
      EXPECT_EQ(gradients.parameters.q_bias(i), expected.parameters.q_bias(i));
    }
    for (const float value : part.d_w_out.values()) EXPECT_EQ(value, 0.0F);
  }
}

TEST(MultiHeadInput, WithAnArenaCallsAfterTheFirstAllocateNothing) {
  LayerSizes sizes = self_sizes();
  sizes.t_q = sizes.t_k = 150;
  Layer layer(sizes);
  Arena arena;
  layer.options.attention.arena = &arena;
  layer.options.attention.mask = Mask::causal() & Mask::lengths({150, 70});
  const int before = threads();
  on_every_isa([&] {
    for (const int count : {1, 2}) {
      set_threads(count);
      const PackedMultiHead packed(layer.parameters());
      const auto call = [&] {
        layer.run();
        multihead_forward(layer.inputs(), packed, layer.options, layer.state, layer.y.view<3>());
      };
      call();
      const int64_t allocations = allocation_count();
      call();
      EXPECT_EQ(allocation_count(), allocations) << count << " threads";
    }
  });
  set_threads(before);
}

}  // namespace
}  // namespace heed::test
