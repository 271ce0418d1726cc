#include "heed/ops/recurrent.h"

#include <algorithm>

#include "heed/ops/matmul.h"
#include "heed/ops/recurrent_plan.h"

namespace heed {
namespace {

constexpr const char* kName = "recurrent_forward";

// What is added to x W_ihᵀ: both biases, but for b_hn of GRU, which goes with W_hn h. Null if there is none.
View<const float, 1> input_bias(RecurrentKind kind, const RecurrentParameters<const float>& p, Arena& arena) {
  if (p.bias_hh.data() == nullptr) return p.bias_ih;
  const int64_t gates = p.weight_hh.size(0);
  const int64_t added = kind == RecurrentKind::gru ? gates / 3 * 2 : gates;
  const View<float, 1> bias(arena.take<float>(gates), {gates});
  for (int64_t j = 0; j < gates; ++j) {
    bias(j) = (p.bias_ih.data() == nullptr ? 0.0F : p.bias_ih(j)) + (j < added ? p.bias_hh(j) : 0.0F);
  }
  return bias;
}

// x W_ihᵀ + b of all tokens, which the steps then read; memory for what is saved.
RecurrentPass prepare(const RecurrentInputs& inputs, const RecurrentDirection& direction, RecurrentSaved& saved,
                      size_t index, Arena& arena) {
  const RecurrentParameters<const float>& p = direction.parameters;
  const int64_t tokens = saved.x.size(0);
  const int64_t hidden = p.weight_hh.size(1);
  const int64_t gates = p.weight_hh.size(0);
  RecurrentPass pass;
  pass.kind = inputs.kind;
  pass.reverse = index == 1;
  pass.keep = saved.keep;
  pass.hidden = hidden;
  pass.direction = direction;
  pass.weight = pack_recurrent_weight(p.weight_hh.transposed(), arena);
  const int64_t width = inputs.kind == RecurrentKind::gru ? gates + hidden : gates;
  saved.gates[index] = {saved.memory->take<float>(tokens * width), {tokens, width}};
  if (inputs.kind == RecurrentKind::lstm && saved.keep) {
    saved.cells[index] = {saved.memory->take<float>(tokens * hidden), {tokens, hidden}};
  }
  if (inputs.kind == RecurrentKind::gru && p.bias_hh.data() != nullptr)
    pass.hidden_bias = p.bias_hh.data() + 2 * hidden;
  pass.gates = saved.gates[index];
  pass.cells = saved.cells[index];
  MatmulOptions options;
  options.bias = input_bias(inputs.kind, p, arena);
  options.arena = &arena;
  matmul(saved.x, p.weight_ih.transposed(), pass.gates.slice(1, 0, gates), options);
  return pass;
}

// Zeros past the length of each item.
void clear_padding(const RecurrentPlan& plan, const View<float, 3>& y) {
  for (const RecurrentItem& item : plan.items) {
    for (int64_t t = item.steps; t < y.size(1); ++t) std::fill_n(&y(item.item, t, 0), y.size(2), 0.0F);
  }
}

}  // namespace

void recurrent_forward(const RecurrentInputs& inputs, std::span<const RecurrentDirection> directions,
                       RecurrentSaved& saved, Arena* arena) {
  check_recurrent(kName, inputs, directions);
  const View<const float, 3>& x = inputs.x;
  if (directions[0].y.size(2) == 0 || x.size(0) == 0) return;
  CallArena scratch(arena);
  const RecurrentPlan plan = plan_recurrent(inputs, static_cast<int64_t>(directions.size()), *scratch);
  if (plan.packed) {
    const View<float, 2> rows(saved.memory->take<float>(plan.tokens * x.size(2)), {plan.tokens, x.size(2)});
    gather_tokens(plan, x, rows);
    saved.x = rows;
  } else {
    saved.x = rows_in_place(x);
  }
  RecurrentPass passes[2];
  for (size_t d = 0; d < directions.size(); ++d) {
    passes[d] = prepare(inputs, directions[d], saved, d, *scratch);
    clear_padding(plan, directions[d].y);
  }
  for_each_block<RecurrentForwardScratch>(
      plan, {passes, directions.size()}, *scratch,
      []<Isa isa>(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& mine) {
        recurrent_forward_kernel<isa>(pass, items, mine);
      });
}

}  // namespace heed
