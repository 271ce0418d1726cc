#include "heed/ops/recurrent_plan.h"

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/ops/matmul_kernel.h"
#include "heed/ops/rows.h"

namespace heed {
namespace {

void check_sequence(const char* function, const char* name, const View<const float, 3>& view,
                    const Shape<3>& expected) {
  check(view.shape() == expected, function, name, " has shape ", view.shape(), ", expected ", expected);
  check_view(function, name, view);
  check(view.size(2) <= 1 || view.stride(2) == 1, function, name, " has strides ", view.strides(),
        "; its rows must be contiguous: copy it first");
}

void check_optional_rows(const char* function, const char* name, const View<const float, 2>& view,
                         const Shape<2>& expected) {
  if (view.data() != nullptr) check_rows(function, name, view, expected);
}

void check_parameters(const char* function, const RecurrentParameters<const float>& p, const Shape<3>& sizes) {
  const auto [gates, inputs, hidden] = sizes;
  check_rows(function, "weight_ih", p.weight_ih, {gates, inputs});
  check_rows(function, "weight_hh", p.weight_hh, {gates, hidden});
  if (p.bias_ih.data() != nullptr) check_vector(function, "bias_ih", p.bias_ih, gates);
  if (p.bias_hh.data() != nullptr) check_vector(function, "bias_hh", p.bias_hh, gates);
}

// Blocks are no smaller than this, but for the last: a tile of 4 rows takes as long as one of fewer.
constexpr int64_t kFewestRows = 4;

int64_t block_count(int64_t items, int64_t directions, int64_t threads) {
  const int64_t most = std::max<int64_t>(1, divide_up(items, kFewestRows));
  int64_t blocks = std::max(divide_up(items, kRecurrentRows), divide_up(threads, directions));
  while (blocks < most && blocks * directions % threads != 0) ++blocks;
  return std::clamp<int64_t>(blocks, 1, most);
}

}  // namespace

void check_recurrent(const char* function, const RecurrentInputs& inputs,
                     std::span<const RecurrentDirection> directions) {
  const View<const float, 3>& x = inputs.x;
  check_sequence(function, "x", x, x.shape());
  const int64_t batch = x.size(0);
  const int64_t tokens = x.size(1);
  check(directions.size() == 1 || directions.size() == 2, function, directions.size(),
        " directions; give one, or two for both");
  const int64_t hidden = directions[0].parameters.weight_hh.size(1);
  check(hidden >= 1, function, "a hidden size of ", hidden, "; it must be above 0");
  const int64_t gates = recurrent_gates(inputs.kind) * hidden;
  for (const RecurrentDirection& direction : directions) {
    check_parameters(function, direction.parameters, {gates, x.size(2), hidden});
    check_sequence(function, "y", direction.y, {batch, tokens, hidden});
    check_apart(function, "y", direction.y, "x", x);
    check_optional_rows(function, "the first hidden state", direction.first.hidden, {batch, hidden});
    check_optional_rows(function, "the first cell state", direction.first.cell, {batch, hidden});
    check_optional_rows(function, "the last hidden state", direction.last.hidden, {batch, hidden});
    check_optional_rows(function, "the last cell state", direction.last.cell, {batch, hidden});
    const bool has_cell = direction.first.cell.data() != nullptr || direction.last.cell.data() != nullptr;
    check(inputs.kind == RecurrentKind::lstm || !has_cell, function, "a cell state, which only LSTM has");
  }
  const std::span<const int64_t> lengths = inputs.lengths;
  check(lengths.empty() || static_cast<int64_t>(lengths.size()) == batch, function, "there are ", lengths.size(),
        " lengths for ", batch, " items");
  for (size_t item = 0; item < lengths.size(); ++item) {
    check(lengths[item] >= 1 && lengths[item] <= tokens, function, "the length of item ", item, " is ", lengths[item],
          "; it must be in 1 … ", tokens, ", the tokens of x ", x.shape());
  }
}

RecurrentPlan plan_recurrent(const RecurrentInputs& inputs, int64_t directions, Arena& arena) {
  const int64_t batch = inputs.x.size(0);
  RecurrentPlan plan;
  plan.blocks = block_count(batch, directions, threads());
  auto* const sorted = arena.take<RecurrentItem>(batch);
  for (int64_t item = 0; item < batch; ++item) {
    const int64_t steps = inputs.lengths.empty() ? inputs.x.size(1) : inputs.lengths[static_cast<size_t>(item)];
    sorted[item] = {item, plan.tokens, steps};
    plan.tokens += steps;
  }
  const bool in_place = batch <= 1 || inputs.x.stride(0) == inputs.x.size(1) * inputs.x.stride(1);
  plan.packed = !in_place || plan.tokens != batch * inputs.x.size(1);
  std::sort(sorted, sorted + batch, [](const RecurrentItem& a, const RecurrentItem& b) {
    return a.steps != b.steps ? a.steps > b.steps : a.item < b.item;
  });
  auto* const dealt = arena.take<RecurrentItem>(batch);
  for (int64_t i = 0; i < batch; ++i) {
    dealt[RecurrentPlan::first_of_block(batch, plan.blocks, i % plan.blocks) + i / plan.blocks] = sorted[i];
  }
  plan.items = {dealt, static_cast<size_t>(batch)};
  return plan;
}

RecurrentWeight pack_recurrent_weight(View<const float, 2> weight, Arena& arena) {
  RecurrentWeight packed;
  packed.depth = weight.size(0);
  PanelLayout& panels = packed.panels;
  panels.columns = weight.size(1);
  panels.lanes = panel_lanes(isa());
  const int64_t vectors = divide_up<int64_t>(panels.columns, panels.lanes);
  panels.wide_vectors = 2;
  panels.wide = vectors / 2;
  panels.narrow = vectors % 2;
  float* const data = arena.take<float>(packed.depth * panels.padded_columns());
  packed.data = data;
  dispatch([&]<Isa isa>() {
    for (int64_t p = 0; p < panels.count(); ++p) {
      pack_panel_kernel<isa>({weight, 0, packed.depth}, panels, p, data + packed.depth * panels[p].column);
    }
  });
  return packed;
}

void gather_tokens(const RecurrentPlan& plan, View<const float, 3> x, View<float, 2> to) {
  parallel_for(static_cast<int64_t>(plan.items.size()), [&](int64_t i, int) {
    const RecurrentItem& item = plan.items[static_cast<size_t>(i)];
    for (int64_t t = 0; t < item.steps; ++t) {
      std::copy_n(&x(item.item, t, 0), x.size(2), &to(item.first + t, 0));
    }
  });
}

void scatter_tokens(const RecurrentPlan& plan, View<const float, 2> from, const InputGradient<3>& d_x) {
  const int64_t width = from.size(1);
  parallel_for(static_cast<int64_t>(plan.items.size()), [&](int64_t i, int) {
    const RecurrentItem& item = plan.items[static_cast<size_t>(i)];
    for (int64_t t = 0; t < d_x.view.size(1); ++t) {
      float* const to = &d_x.view(item.item, t, 0);
      if (t >= item.steps) {
        if (!d_x.add) std::fill_n(to, width, 0.0F);
        continue;
      }
      const float* const row = &from(item.first + t, 0);
      for (int64_t j = 0; j < width; ++j) to[j] = d_x.add ? to[j] + row[j] : row[j];
    }
  });
}

}  // namespace heed
