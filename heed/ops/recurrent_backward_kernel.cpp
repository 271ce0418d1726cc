// The steps of a recurrent layer backwards, for a block of items: per step the gradients of the gates, then one product
// that takes them to the state before.
#include "heed/simd/target.h"
//
#include <algorithm>

#include "heed/ops/activation_vector.h"
#include "heed/ops/recurrent_product.h"
#include "heed/simd/row.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {
namespace {

// A step of one item; all rows of H floats, those of the gates of G·H.
struct BackwardRow {
  int64_t hidden;
  float* gates;          // in: gates; out: gradients of their pre-activations
  float* d_gates;        // out: the same, for the product with W_hh
  const float* product;  // d_h, but for `carry` of GRU and d_y
  float* carry;
  const float* d_y;
  const float* h;  // after the step
  const float* h_before;
  const float* c;
  const float* c_before;
  float* previous;  // out: h_before; null: not wanted
  int64_t ahead;    // from the token to that of the next step backwards, in rows of the matrices below
  int64_t gates_stride, y_stride, d_y_stride;

  // As in forward.
  HWY_INLINE void prefetch(int64_t j) const {
    for (int64_t gate = 0; gate < gates_stride; gate += hidden) {
      __builtin_prefetch(gates + ahead * gates_stride + gate + j, 1, 2);
    }
    __builtin_prefetch(h_before + ahead * y_stride + j, 0, 2);
    __builtin_prefetch(d_y + ahead * d_y_stride + j, 0, 2);
    if (c != nullptr) __builtin_prefetch(c_before + ahead * hidden + j, 0, 2);
    if (previous != nullptr) __builtin_prefetch(previous + ahead * hidden + j, 1, 2);
  }

  template <class Part>
  HWY_INLINE Vector d_hidden(Part part, int64_t j) const {
    return hn::Add(part.load(product + j), part.load(d_y + j));
  }
  template <class Part>
  HWY_INLINE Vector gate(Part part, int index, int64_t j) const {
    return part.load(gates + index * hidden + j);
  }
  // `from_hidden` is the gradient by what W_hh h adds to.
  template <class Part>
  HWY_INLINE void store(Part part, Vector gradient, Vector from_hidden, int index, int64_t j) const {
    part.store(gradient, gates + index * hidden + j);
    part.store(from_hidden, d_gates + index * hidden + j);
  }
  template <class Part>
  HWY_INLINE void store(Part part, Vector gradient, int index, int64_t j) const {
    store(part, gradient, gradient, index, j);
  }
};

// d · s (1 - s), the gradient of a sigmoid with the value s.
HWY_INLINE Vector sigmoid_gradient(Vector s, Vector d) { return hn::Mul(d, hn::NegMulAdd(s, s, s)); }
// d · (1 - t²), the gradient of a tanh with the value t.
HWY_INLINE Vector tanh_gradient(Vector t, Vector d) { return hn::NegMulAdd(hn::Mul(d, t), t, d); }

// Each step(row, part, j) mirrors that of forward.
struct RnnTanhBackward {
  template <class Part>
  static HWY_INLINE void step(const BackwardRow& row, Part part, int64_t j) {
    row.store(part, tanh_gradient(part.load(row.h + j), row.d_hidden(part, j)), 0, j);
  }
};

struct RnnReluBackward {
  template <class Part>
  static HWY_INLINE void step(const BackwardRow& row, Part part, int64_t j) {
    row.store(part, Relu::gradient(part.load(row.h + j), row.d_hidden(part, j)), 0, j);
  }
};

struct LstmBackward {
  template <class Part>
  static HWY_INLINE void step(const BackwardRow& row, Part part, int64_t j) {
    const Vector i = row.gate(part, 0, j);
    const Vector f = row.gate(part, 1, j);
    const Vector g = row.gate(part, 2, j);
    const Vector o = row.gate(part, 3, j);
    const Vector t = tanh(part.load(row.c + j));
    const Vector d_h = row.d_hidden(part, j);
    const Vector d_c = hn::Add(part.load(row.carry + j), tanh_gradient(t, hn::Mul(d_h, o)));
    part.store(hn::Mul(d_c, f), row.carry + j);
    row.store(part, sigmoid_gradient(i, hn::Mul(d_c, g)), 0, j);
    row.store(part, sigmoid_gradient(f, hn::Mul(d_c, part.load(row.c_before + j))), 1, j);
    row.store(part, tanh_gradient(g, hn::Mul(d_c, i)), 2, j);
    row.store(part, sigmoid_gradient(o, hn::Mul(d_h, t)), 3, j);
  }
};

struct GruBackward {
  template <class Part>
  static HWY_INLINE void step(const BackwardRow& row, Part part, int64_t j) {
    const Vector r = row.gate(part, 0, j);
    const Vector z = row.gate(part, 1, j);
    const Vector n = row.gate(part, 2, j);
    const Vector from_hidden = row.gate(part, 3, j);
    const Vector d_h = hn::Add(row.d_hidden(part, j), part.load(row.carry + j));
    const Vector kept = hn::Mul(d_h, z);
    part.store(kept, row.carry + j);
    const Vector d_n = tanh_gradient(n, hn::Sub(d_h, kept));
    const Vector d_from_hidden = hn::Mul(d_n, r);
    row.store(part, sigmoid_gradient(r, hn::Mul(d_n, from_hidden)), 0, j);
    row.store(part, sigmoid_gradient(z, hn::Mul(d_h, hn::Sub(part.load(row.h_before + j), n))), 1, j);
    row.store(part, d_n, d_from_hidden, 2, j);
    part.store(d_from_hidden, row.gates + 3 * row.hidden + j);
  }
};

// Where a row of a state is; zeros where there is none.
const float* state_at(const View<const float, 2>& states, int64_t row, const float* zeros) {
  return states.data() == nullptr ? zeros : &states(row, 0);
}

template <class Cell>
class BackwardBlock {
 public:
  BackwardBlock(const RecurrentPass& pass, std::span<const RecurrentItem> items, Arena& arena)
      : pass_(pass),
        items_(items),
        rows_(static_cast<int64_t>(items.size())),
        scratch_(arena, rows_, pass.hidden, recurrent_gates(pass.kind)) {}

  void run() {
    std::fill_n(scratch_.zeros, pass_.hidden, 0.0F);
    for (int64_t i = 0; i < rows_; ++i) {
      const int64_t item = items_[static_cast<size_t>(i)].item;
      const int64_t at = i * scratch_.hidden_stride;
      const RecurrentStates<const float>& d_last = pass_.gradients.d_last;
      std::copy_n(state_at(d_last.hidden, item, scratch_.zeros), pass_.hidden, scratch_.product + at);
      std::copy_n(state_at(d_last.cell, item, scratch_.zeros), pass_.hidden, scratch_.carry + at);
    }
    for (int64_t step = rows_ == 0 ? -1 : items_[0].steps - 1; step >= 0; --step) {
      const int64_t active = active_at(items_, step, rows_);
      for (int64_t i = 0; i < active; ++i) {
        const BackwardRow row = row_at(i, step);
        for_each_vector(pass_.hidden, [&](auto part, int64_t j) HWY_ATTR {
          row.prefetch(j);
          if (row.previous != nullptr) part.store(part.load(row.h_before + j), row.previous + j);
          Cell::step(row, part, j);
        });
      }
      multiply_rows({scratch_.d_gates, scratch_.gates_stride}, active, pass_.weight,
                    {scratch_.product, scratch_.hidden_stride});
    }
    for (int64_t i = 0; i < rows_; ++i) finish(i);
  }

 private:
  BackwardRow row_at(int64_t i, int64_t step) const {
    const RecurrentItem& item = items_[static_cast<size_t>(i)];
    const RecurrentDirection& direction = pass_.direction;
    const int64_t token = token_of(pass_, item, step);
    const int64_t row = item.first + token;
    const int64_t before = pass_.reverse ? 1 : -1;  // from a token to that of the step before
    const View<const float, 2> y = direction.y[item.item];
    const bool has_cells = pass_.kind == RecurrentKind::lstm;
    const View<const float, 3>& d_y = pass_.gradients.d_y;
    return {pass_.hidden,
            &pass_.gates(row, 0),
            scratch_.d_gates + i * scratch_.gates_stride,
            scratch_.product + i * scratch_.hidden_stride,
            scratch_.carry + i * scratch_.hidden_stride,
            d_y.data() == nullptr ? scratch_.zeros : &d_y(item.item, token, 0),
            &y(token, 0),
            step == 0 ? state_at(direction.first.hidden, item.item, scratch_.zeros) : &y(token + before, 0),
            has_cells ? &pass_.cells(row, 0) : nullptr,
            !has_cells  ? nullptr
            : step == 0 ? state_at(direction.first.cell, item.item, scratch_.zeros)
                        : &pass_.cells(row + before, 0),
            pass_.previous.data() == nullptr ? nullptr : &pass_.previous(row, 0),
            before,
            pass_.gates.stride(0),
            y.stride(0),
            d_y.data() == nullptr ? 0 : d_y.stride(1)};
  }

  // The gradients of the states before the first step.
  void finish(int64_t i) const {
    const int64_t item = items_[static_cast<size_t>(i)].item;
    const float* const product = scratch_.product + i * scratch_.hidden_stride;
    const float* const carry = scratch_.carry + i * scratch_.hidden_stride;
    const bool is_gru = pass_.kind == RecurrentKind::gru;
    const auto put = [&](const InputGradient<2>& to, auto value_at) HWY_ATTR {
      if (to.view.data() == nullptr) return;
      float* const row = &to.view(item, 0);
      for_each_vector(pass_.hidden, [&](auto part, int64_t j) HWY_ATTR {
        const Vector value = value_at(part, j);
        part.store(to.add ? hn::Add(part.load(row + j), value) : value, row + j);
      });
    };
    put(pass_.gradients.d_first_hidden, [&](auto part, int64_t j) HWY_ATTR {
      const Vector d_h = part.load(product + j);
      return is_gru ? hn::Add(d_h, part.load(carry + j)) : d_h;
    });
    put(pass_.gradients.d_first_cell, [&](auto part, int64_t j) HWY_ATTR { return part.load(carry + j); });
  }

  const RecurrentPass& pass_;
  std::span<const RecurrentItem> items_;
  int64_t rows_;
  RecurrentBackwardScratch scratch_;
};

}  // namespace
}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

namespace heed {

template <>
void recurrent_backward_kernel<kTargetIsa>(const RecurrentPass& pass, std::span<const RecurrentItem> items,
                                           Arena& scratch) {
  using namespace HWY_NAMESPACE;
  switch (pass.kind) {
    case RecurrentKind::rnn_tanh:
      return BackwardBlock<RnnTanhBackward>(pass, items, scratch).run();
    case RecurrentKind::rnn_relu:
      return BackwardBlock<RnnReluBackward>(pass, items, scratch).run();
    case RecurrentKind::lstm:
      return BackwardBlock<LstmBackward>(pass, items, scratch).run();
    case RecurrentKind::gru:
      return BackwardBlock<GruBackward>(pass, items, scratch).run();
  }
}

}  // namespace heed
