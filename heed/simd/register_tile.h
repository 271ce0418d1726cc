// The register tile: the inner loop that matmul and attention share. Kernel sources only (heed/simd/target.h).
//
// A tile holds R rows × C vectors of sums in registers. accumulate() computes, for k = 0 … depth-1 in this order,
//     sum[r][c] = fma(a[r · a_row + k · a_step], b[k · b_step + c · lanes …], sum[r][c]):
// each element is one chain of fused multiply-adds over k, so its bits depend only on its own row of `a` and column of
// `b`: not on R, C, the other rows or the vector width.
#pragma once

#include <cstdint>
#include <type_traits>

#include "heed/simd/bf16_vector.h"

HWY_BEFORE_NAMESPACE();
namespace heed::HWY_NAMESPACE {

// 32 vector registers on AVX-512, else 16. kTileRows is the number of rows that keeps both FMA units busy for a tile of
// C vectors: R·C sums, C vectors of b and one of a fit the registers, and R·C covers the latency of two units (at least
// 8).
inline constexpr bool kManyRegisters = HWY_TARGET <= HWY_AVX3;
inline constexpr int kMostTileVectors = kManyRegisters ? 4 : 2;

template <int C>
inline constexpr int kTileRows = kManyRegisters ? (C == 1   ? 16
                                                   : C == 2 ? 12
                                                   : C == 3 ? 8
                                                            : 6)
                                                : (C == 1 ? 12 : 6);

// How many of the `left` vectors the next tile takes: as many as fit, but avoiding narrow tiles at the end (5 = 3 + 2,
// 6 = 3 + 3), because narrow tiles load more than they multiply.
inline int next_tile_vectors(int64_t left) {
  if (kMostTileVectors == 4 && (left == 5 || left == 6)) return 3;
  return static_cast<int>(left < kMostTileVectors ? left : kMostTileVectors);
}

// A row stride known at compile time.
template <int64_t stride>
struct FixedStride {
  constexpr operator int64_t() const { return stride; }
};
using UnitStride = FixedStride<1>;

// Calls f.operator()<n>() for n in 1 … most.
template <int most, class F>
HWY_INLINE void with_count(int n, F f) {
  if constexpr (most > 1) {
    if (n < most) return with_count<most - 1>(n, f);
  }
  f.template operator()<most>();
}

// Panels of b: rows of a few vectors, with strides of `step` values of T between rows and `panel` values between
// panels. With T = float a row is one k; with T = uint32_t it is two, as pairs of bf16 (heed/simd/bf16_vector.h),
// widened on load.
template <class T>
struct PanelsOfB {
  const T* data;
  int64_t step;
  int64_t panel;
};

template <int R, int C>
struct RegisterTile {
  Vector sum[R][C];

  HWY_INLINE void set_zero() {
    fill([](int, int) HWY_ATTR { return hn::Zero(kFloats); });
  }

  // sum[r][c] = start(r, c).
  template <class Start>
  HWY_INLINE void fill(Start start) {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) sum[r][c] = start(r, c);
    }
  }

  HWY_INLINE void load(const float* from, int64_t row_step) {
    fill([=](int r, int c) HWY_ATTR { return hn::LoadU(kFloats, from + r * row_step + c * kLanes); });
  }

  HWY_INLINE void store(float* to, int64_t row_step) const {
    for_each([=](int r, int c, Vector value) HWY_ATTR { hn::StoreU(value, kFloats, to + r * row_step + c * kLanes); });
  }

  // to += tile
  HWY_INLINE void add_to(float* to, int64_t row_step) const {
    for_each([=](int r, int c, Vector value) HWY_ATTR {
      float* at = to + r * row_step + c * kLanes;
      hn::StoreU(hn::Add(hn::LoadU(kFloats, at), value), kFloats, at);
    });
  }

  // visit(r, c, sum) for each vector of sums, row by row.
  template <class Visit>
  HWY_INLINE void for_each(Visit visit) const {
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
#pragma GCC unroll 16
      for (int c = 0; c < C; ++c) visit(r, c, sum[r][c]);
    }
  }

  // Vectors c < `first` are left unchanged.
  template <int first = 0, class RowStride>
  HWY_INLINE void accumulate(const float* HWY_RESTRICT a, RowStride a_row, int64_t a_step, const float* HWY_RESTRICT b,
                             int64_t b_step, int64_t depth) {
    accumulate_panels<1, first>(a, a_row, a_step, PanelsOfB<float>{b, b_step, 0}, depth, [](int64_t) HWY_ATTR {});
  }

  // The same with the C vectors of b in P panels of C / P vectors: with few rows, several panels in flight are needed
  // to cover the FMA latency. each(k) is called once per step, for prefetching.
  template <int P, int first = 0, class T, class RowStride, class Each>
  HWY_INLINE void accumulate_panels(const float* HWY_RESTRICT a, RowStride a_row, int64_t a_step, const PanelsOfB<T>& b,
                                    int64_t depth, Each each) {
    const float* HWY_RESTRICT base[kPointers];
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) base[i] = a + i * kRowsOfPointer * a_row;
    const T* HWY_RESTRICT at = b.data;
    if constexpr (std::is_same_v<T, float>) {
#pragma GCC unroll 2
      for (int64_t k = 0; k < depth; ++k, at += b.step) {
        step<P, first>(
            base, a_row, a_step, [=](int64_t offset) HWY_ATTR { return load_vector(at + offset); }, b.panel);
        each(k);
      }
    } else {
      for (int64_t k = 0; k < depth; k += 2, at += b.step) {
        step<P, first>(
            base, a_row, a_step, [=](int64_t offset) HWY_ATTR { return load_lower(at + offset); }, b.panel);
        each(k);
        if (k + 1 == depth) break;
        step<P, first>(
            base, a_row, a_step, [=](int64_t offset) HWY_ATTR { return load_upper(at + offset); }, b.panel);
        each(k + 1);
      }
    }
  }

 private:
  // One pointer per 6 rows, so that the row offsets fit the general-purpose registers.
  static constexpr int kRowsOfPointer = 6;
  static constexpr int kPointers = (R + kRowsOfPointer - 1) / kRowsOfPointer;

  // One k: load(offset) returns the vector of b at that offset. Advances the row pointers.
  template <int P, int first, class RowStride, class Load>
  HWY_INLINE void step(const float* HWY_RESTRICT (&base)[kPointers], RowStride a_row, int64_t a_step, Load load,
                       int64_t panel) {
    constexpr int kEach = C / P;
    Vector column[C];
#pragma GCC unroll 16
    for (int c = first; c < C; ++c) column[c] = load(c / kEach * panel + c % kEach * kLanes);
#pragma GCC unroll 16
    for (int r = 0; r < R; ++r) {
      const Vector row = hn::Set(kFloats, base[r / kRowsOfPointer][r % kRowsOfPointer * a_row]);
#pragma GCC unroll 16
      for (int c = first; c < C; ++c) sum[r][c] = hn::MulAdd(row, column[c], sum[r][c]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < kPointers; ++i) base[i] += a_step;
  }
};

// Calls visit.operator()<R>(first_row) for tiles of kTileRows<C> rows, then 4, 2 and 1, until `rows` are covered.
template <int C, class Visit>
HWY_INLINE void for_each_row_tile(int64_t rows, Visit visit) {
  constexpr int kFull = kTileRows<C>;
  int64_t row = 0;
  for (; row + kFull <= rows; row += kFull) visit.template operator()<kFull>(row);
  for (; row + 4 <= rows; row += 4) visit.template operator()<4>(row);
  if (row + 2 <= rows) {
    visit.template operator()<2>(row);
    row += 2;
  }
  if (row < rows) visit.template operator()<1>(row);
}

}  // namespace heed::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
