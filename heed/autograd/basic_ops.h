// Basic ops on a tape, with PyTorch's names, argument order and semantics. A negative dimension counts from the last.
//
//     Var y = softmax(matmul(q, k, {.b = true}) * 0.125F, -1);
#pragma once

#include <cstdint>
#include <initializer_list>
#include <span>

#include "heed/autograd/var.h"
#include "heed/core/tensor.h"

namespace heed {

// Elementwise, with broadcasting.
Var add(const Var& a, const Var& b);
Var sub(const Var& a, const Var& b);
Var mul(const Var& a, const Var& b);

inline Var operator+(const Var& a, const Var& b) { return add(a, b); }
inline Var operator-(const Var& a, const Var& b) { return sub(a, b); }
inline Var operator*(const Var& a, const Var& b) { return mul(a, b); }
Var operator+(const Var& a, float b);
Var operator-(const Var& a, float b);
Var operator*(const Var& a, float b);
inline Var operator+(float a, const Var& b) { return b + a; }
Var operator-(float a, const Var& b);
inline Var operator*(float a, const Var& b) { return b * a; }
inline Var operator-(const Var& a) { return a * -1.0F; }

// Which factors of a product are transposed in their last two dimensions; costs nothing.
struct Transposed {
  bool a = false;
  bool b = false;
};

// The product of the last two dimensions: a [..., M, K], b [..., K, N] → [..., M, N]. The dimensions before them are
// the same, or b has none (and a is not transposed).
Var matmul(const Var& a, const Var& b, const Transposed& transposed = {});

// Dimension i of the result is dimension order[i] of x. Copies, as Vars are contiguous.
Var permute(const Var& x, std::span<const int> order);
Var permute(const Var& x, std::initializer_list<int> order);
Var transpose(const Var& x, int dim0, int dim1);
// x[start:end] of one dimension. Negative positions count from the end; unlike Python's, positions outside are an
// Error.
Var slice(const Var& x, int dim, int64_t start, int64_t end);
// Vars of the same sizes but for `dim`, one after the other.
Var concat(std::span<const Var> parts, int dim);
Var concat(std::initializer_list<Var> parts, int dim);

// Over all elements, to a single number, or over one dimension, which disappears or stays with size 1.
Var sum(const Var& x);
Var sum(const Var& x, int dim, bool keepdim = false);
Var mean(const Var& x);
Var mean(const Var& x, int dim, bool keepdim = false);
// The gradient goes to the first maximum.
Var max(const Var& x);
struct MaxOfDim {
  Var values;
  std::span<const int64_t> indices;  // of the first maximum, in the shape of values; until the tape is cleared
};
MaxOfDim max(const Var& x, int dim, bool keepdim = false);

// Rows of nothing but -∞ are 0 (log_softmax: -∞), not NaN.
Var softmax(const Var& x, int dim);
Var log_softmax(const Var& x, int dim);

// `value` where the mask, broadcast to the shape of x, is true. The mask is copied.
Var masked_fill(const Var& x, const TensorOf<bool>& mask, float value);

// Takes along `dim` by the index, whose other sizes are those of x. The index is copied.
Var gather(const Var& x, int dim, const TensorOf<int64_t>& index);

}  // namespace heed
