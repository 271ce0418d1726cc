#include "bench/layer_call.h"

#include <cmath>

#include "bench/attention_cases.h"
#include "heed/core/rng.h"

namespace heed::bench {

LayerCall::LayerCall(const AttentionSizes& sizes, bool with_backward) : sizes_(sizes), parameters_(make_parameters()) {
  options_.heads = sizes.heads;
  options_.kv_heads = sizes.kv_heads;
  options_.attention.mask = mask_of(sizes);
  options_.attention.arena = &arena_;
  if (sizes.option == "rotary") {
    rotary_.emplace(RotaryOptions{.pairing = RotaryPairing::halves, .width = sizes.dim, .positions = sizes.t_q});
    options_.rotary.table = &*rotary_;
  }
  const std::vector<int64_t> shape{sizes.batch, sizes.t_q, sizes.width};
  x_ = Tensor(shape);
  y_ = Tensor(shape);
  Rng(1).fill_normal(x_.values());
  const float deviation = 1.0F / std::sqrt(static_cast<float>(sizes.width));
  Rng(2).fill_normal(parameters_.in_weight.values(), deviation);
  Rng(3).fill_normal(parameters_.out_weight.values(), deviation);
  Rng(4).fill_normal(parameters_.in_bias.values());
  Rng(5).fill_normal(parameters_.out_bias.values());
  if (sizes.packed) packed_ = PackedMultiHead(views_of(parameters_));
  if (!with_backward) return;
  gradients_ = make_parameters();
  d_x_ = Tensor(shape);
  d_y_ = Tensor(shape);
  Rng(6).fill_normal(d_y_.values());
}

LayerCall::Parameters LayerCall::make_parameters() const {
  const int64_t rows = (sizes_.heads + 2 * sizes_.kv_heads) * sizes_.dim;
  return {Tensor({rows, sizes_.width}), Tensor({rows}), Tensor({sizes_.width, sizes_.heads * sizes_.dim}),
          Tensor({sizes_.width})};
}

MultiHeadParameters<float> LayerCall::views_of(Parameters& parameters) const {
  const int64_t q_rows = sizes_.heads * sizes_.dim;
  const int64_t kv_rows = sizes_.kv_heads * sizes_.dim;
  const View<float, 2> weight = parameters.in_weight.view<2>();
  const View<float, 1> bias = parameters.in_bias.view<1>();
  return {weight.slice(0, 0, q_rows),
          weight.slice(0, q_rows, kv_rows),
          weight.slice(0, q_rows + kv_rows, kv_rows),
          parameters.out_weight.view<2>(),
          bias.slice(0, 0, q_rows),
          bias.slice(0, q_rows, kv_rows),
          bias.slice(0, q_rows + kv_rows, kv_rows),
          parameters.out_bias.view<1>()};
}

void LayerCall::forward() {
  const MultiHeadInputs inputs = MultiHeadInputs::self(x_.view<3>());
  if (sizes_.packed) return multihead_forward(inputs, packed_, options_, state_, y_.view<3>());
  multihead_forward(inputs, views_of(parameters_), options_, state_, y_.view<3>());
}

void LayerCall::backward() {
  const View<float, 3> d_x = d_x_.view<3>();
  multihead_backward(MultiHeadInputs::self(x_.view<3>()), views_of(parameters_), options_, state_, d_y_.view<3>(),
                     {d_x, d_x, d_x, views_of(gradients_)});
}

}  // namespace heed::bench
