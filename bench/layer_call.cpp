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
  Rng(2).fill_normal(parameters_.in.values(), deviation);
  Rng(3).fill_normal(parameters_.out.values(), deviation);
  Rng(4).fill_normal(parameters_.in_bias.values());
  Rng(5).fill_normal(parameters_.out_bias.values());
  if (sizes.packed) packed_ = PackedMultiHead(parameters_.parameters());
  if (!with_backward) return;
  gradients_ = make_parameters();
  d_x_ = Tensor(shape);
  d_y_ = Tensor(shape);
  Rng(6).fill_normal(d_y_.values());
}

MultiHeadWeights LayerCall::make_parameters() const {
  const int64_t q_rows = sizes_.heads * sizes_.dim, kv_rows = sizes_.kv_heads * sizes_.dim, width = sizes_.width;
  MultiHeadWeights made;
  made.in = Tensor({q_rows + 2 * kv_rows, width});
  made.in_shapes = {{{q_rows, width}, {kv_rows, width}, {kv_rows, width}}};
  made.in_bias = Tensor({q_rows + 2 * kv_rows});
  made.out = Tensor({width, q_rows});
  made.out_bias = Tensor({width});
  return made;
}

void LayerCall::forward() {
  const MultiHeadInputs inputs = MultiHeadInputs::self(x_.view<3>());
  if (sizes_.packed) return multihead_forward(inputs, packed_, options_, state_, y_.view<3>());
  multihead_forward(inputs, parameters_.parameters(), options_, state_, y_.view<3>());
}

void LayerCall::backward() {
  const View<float, 3> d_x = d_x_.view<3>();
  multihead_backward(MultiHeadInputs::self(x_.view<3>()), parameters_.parameters(), options_, state_, d_y_.view<3>(),
                     {d_x, d_x, d_x, gradients_.parameters()});
}

}  // namespace heed::bench
