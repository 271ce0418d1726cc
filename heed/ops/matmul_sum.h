// Sums of products, as convolutions are made of them: c[i] = act(Σ_t a[i, t] b[i, t] + bias). Internal to heed/ops.
//
// Order of arithmetic: the terms in order, each with matmul's order, so that an element has the same bits for any
// number of threads and alone or among other items.
#pragma once

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/activation.h"

namespace heed {

struct MatmulSumOptions {
  View<const float, 1> bias{};  // [N]; null: none
  bool accumulate = false;      // c += result
  // With a single term and without accumulate only:
  Activation activation = Activation::none;
  View<float, 3> derivative{};  // of the shape of c: receives act' of its argument; null: not kept
  Arena* arena = nullptr;       // for scratch
};

// a [items, terms, M, K], b [items, terms, K, N] → c [items, M, N]. An item stride of 0 in b gives all items the same
// matrices, which are packed once. Rows of a and b may overlap; c must not share memory with what is read. The callers
// have checked the views. Without terms the sum is 0.
void matmul_sum(View<const float, 4> a, View<const float, 4> b, View<float, 3> c, const MatmulSumOptions& options);

}  // namespace heed
