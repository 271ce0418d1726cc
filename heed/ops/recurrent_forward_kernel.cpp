// The steps of a recurrent layer for a block of items: per step one product, then the gates while its sums are in L1.
#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/activation_vector.h"
#include "heed/ops/recurrent_product.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// A step of one item; all rows of H floats, those of `gates` and `sums` of G·H.
struct ForwardRow {
  int64_t hidden;
  bool keep;
  float* gates;
  const float* sums;
  const float* hidden_bias;
  float* h;       // in: before the step
  float* c;       // the same
  float* y;       // out: h
  float* cells;   // out: c, if kept
  int64_t ahead;  // from the token to that of the next step, in rows of the matrices below
  int64_t gates_stride, y_stride, cells_stride;

  // The rows of the next step: every item has its own, which are too many streams for the prefetchers of a core.
  HWY_INLINE void prefetch(int64_t j) const {
    for (int64_t gate = 0; gate < gates_stride; gate += hidden) {
      __builtin_prefetch(gates + ahead * gates_stride + gate + j, 1, 2);
    }
    __builtin_prefetch(y + ahead * y_stride + j, 1, 2);
    if (cells != nullptr) __builtin_prefetch(cells + ahead * cells_stride + j, 1, 2);
  }
  // x W_ihᵀ + b + W_hh h of a gate.
  template <class Part>
  HWY_INLINE Vector pre_activation(Part part, int gate, int64_t j) const {
    return hn::Add(part.load(gates + gate * hidden + j), part.load(sums + gate * hidden + j));
  }
  template <class Part>
  HWY_INLINE void keep_gate(Part part, Vector value, int gate, int64_t j) const {
    if (keep) part.store(value, gates + gate * hidden + j);
  }
  template <class Part>
  HWY_INLINE void store_hidden(Part part, Vector value, int64_t j) const {
    part.store(value, h + j);
    part.store(value, y + j);
  }
};

// Each step(row, part, j) computes units j … of the next state.
template <class A>
struct RnnForward {
  template <class Part>
  static HWY_INLINE void step(const ForwardRow& row, Part part, int64_t j) {
    row.store_hidden(part, A::value(row.pre_activation(part, 0, j)), j);
  }
};

struct LstmForward {
  template <class Part>
  static HWY_INLINE void step(const ForwardRow& row, Part part, int64_t j) {
    const Vector i = sigmoid(row.pre_activation(part, 0, j));
    const Vector f = sigmoid(row.pre_activation(part, 1, j));
    const Vector g = tanh(row.pre_activation(part, 2, j));
    const Vector o = sigmoid(row.pre_activation(part, 3, j));
    const Vector c = hn::MulAdd(f, part.load(row.c + j), hn::Mul(i, g));
    part.store(c, row.c + j);
    row.keep_gate(part, i, 0, j);
    row.keep_gate(part, f, 1, j);
    row.keep_gate(part, g, 2, j);
    row.keep_gate(part, o, 3, j);
    if (row.keep) part.store(c, row.cells + j);
    row.store_hidden(part, hn::Mul(o, tanh(c)), j);
  }
};

struct GruForward {
  template <class Part>
  static HWY_INLINE void step(const ForwardRow& row, Part part, int64_t j) {
    const Vector r = sigmoid(row.pre_activation(part, 0, j));
    const Vector z = sigmoid(row.pre_activation(part, 1, j));
    Vector from_hidden = part.load(row.sums + 2 * row.hidden + j);
    if (row.hidden_bias != nullptr) from_hidden = hn::Add(from_hidden, part.load(row.hidden_bias + j));
    const Vector n = tanh(hn::MulAdd(r, from_hidden, part.load(row.gates + 2 * row.hidden + j)));
    row.keep_gate(part, r, 0, j);
    row.keep_gate(part, z, 1, j);
    row.keep_gate(part, n, 2, j);
    row.keep_gate(part, from_hidden, 3, j);
    row.store_hidden(part, hn::MulAdd(z, hn::Sub(part.load(row.h + j), n), n), j);
  }
};

void load_state(const View<const float, 2>& states, int64_t item, int64_t hidden, float* to) {
  if (states.data() == nullptr) {
    std::fill_n(to, hidden, 0.0F);
  } else {
    std::copy_n(&states(item, 0), hidden, to);
  }
}

template <class Cell>
void run_forward(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& arena) {
  const auto rows = static_cast<int64_t>(items.size());
  const RecurrentForwardScratch scratch(arena, rows, pass.hidden, recurrent_gates(pass.kind));
  const bool is_lstm = pass.kind == RecurrentKind::lstm;
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t item = items[static_cast<size_t>(i)].item;
    load_state(pass.direction.first.hidden, item, pass.hidden, scratch.h + i * scratch.hidden_stride);
    if (is_lstm) load_state(pass.direction.first.cell, item, pass.hidden, scratch.c + i * scratch.hidden_stride);
  }
  int64_t active = rows;
  for (int64_t step = 0; (active = active_at(items, step, active)) > 0; ++step) {
    multiply_rows({scratch.h, scratch.hidden_stride}, active, pass.weight, {scratch.sums, scratch.sums_stride});
    for (int64_t i = 0; i < active; ++i) {
      const RecurrentItem& item = items[static_cast<size_t>(i)];
      const int64_t token = token_of(pass, item, step);
      const ForwardRow row{pass.hidden,
                           pass.keep,
                           &pass.gates(item.first + token, 0),
                           scratch.sums + i * scratch.sums_stride,
                           pass.hidden_bias,
                           scratch.h + i * scratch.hidden_stride,
                           scratch.c + i * scratch.hidden_stride,
                           &pass.direction.y(item.item, token, 0),
                           is_lstm && pass.keep ? &pass.cells(item.first + token, 0) : nullptr,
                           pass.reverse ? -1 : 1,
                           pass.gates.stride(0),
                           pass.direction.y.stride(1),
                           pass.hidden};
      for_each_vector(pass.hidden, [&](auto part, int64_t j) HWY_ATTR {
        row.prefetch(j);
        Cell::step(row, part, j);
      });
    }
  }
  for (int64_t i = 0; i < rows; ++i) {
    const int64_t item = items[static_cast<size_t>(i)].item;
    const RecurrentStates<float>& last = pass.direction.last;
    const int64_t from = i * scratch.hidden_stride;
    if (last.hidden.data() != nullptr) std::copy_n(scratch.h + from, pass.hidden, &last.hidden(item, 0));
    if (last.cell.data() != nullptr) std::copy_n(scratch.c + from, pass.hidden, &last.cell(item, 0));
  }
}

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void recurrent_forward_kernel<kTargetIsa>(const RecurrentPass& pass, std::span<const RecurrentItem> items,
                                          Arena& scratch) {
  using namespace HWY_NAMESPACE;
  switch (pass.kind) {
    case RecurrentKind::rnn_tanh:
      return run_forward<RnnForward<Tanh>>(pass, items, scratch);
    case RecurrentKind::rnn_relu:
      return run_forward<RnnForward<Relu>>(pass, items, scratch);
    case RecurrentKind::lstm:
      return run_forward<LstmForward>(pass, items, scratch);
    case RecurrentKind::gru:
      return run_forward<GruForward>(pass, items, scratch);
  }
}

}  // namespace heed
