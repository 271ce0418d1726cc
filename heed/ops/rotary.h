// Rotary position embedding: pairs of a head's elements are rotated by an angle that grows with the token's position,
// so that q · k depends on the distance between query and key. With a = position · base^(-2i / width), pair i becomes
//     (x cos a - y sin a,  x sin a + y cos a).
//
//     const RotaryTable table({.pairing = RotaryPairing::halves, .width = 64, .positions = 4096});
//     rotary_forward(q, table, {.offset = 100}, q);     // in place; token t is at position 100 + t
//
// Letters: B batch, T tokens, H heads, D width of a head. Elements past the rotated width are unchanged. An element's
// bits depend only on its own pair and position: not on threads, batch mates, strides or chunks.
#pragma once

#include <cstdint>
#include <span>

#include "heed/core/tensor.h"
#include "heed/core/view.h"

namespace heed {

// Which two elements of a head are pair i.
enum class RotaryPairing {
  interleaved,  // 2i and 2i + 1, as in llama2.c
  halves,       // i and i + width / 2, as in Hugging Face
};

struct RotaryOptions {
  RotaryPairing pairing = RotaryPairing::interleaved;
  double base = 10000.0;
  int64_t width = 0;      // how many leading elements of a head are rotated; even, at least 2
  int64_t first = 0;      // the table holds positions first …
  int64_t positions = 0;  // … first + positions - 1
};

// cos and sin of every position and pair, computed in double and rounded to float once. For a base of 1 or more each is
// within 2^-25 + |position| · 2^-51 of the true value: 3.03e-8 at position 1,000,000. Immutable.
class RotaryTable {
 public:
  explicit RotaryTable(const RotaryOptions& options);

  const RotaryOptions& options() const { return options_; }
  int64_t pairs() const { return options_.width / 2; }

  // cos of pairs 0, 1, … at a position in the table, then sin: [2][pairs].
  const float* row(int64_t position) const {
    return values_.values().data() + (position - options_.first) * options_.width;
  }

 private:
  RotaryOptions options_;
  Tensor values_;  // [positions, 2 · pairs]
};

// The tokens' positions, in one of three ways.
struct RotaryPositions {
  int64_t offset = 0;                  // token t of every item at offset + t,
  std::span<const int64_t> offsets{};  // or, if not empty, token t of item b at offsets[b] + t,
  View<const int64_t, 2> positions{};  // or, if not null, at positions(b, t), [B or 1, T]
};

// Rejects a tensor [B, T, H, D] whose width or positions do not fit the table, with an error that names `function`.
void check_rotary(const char* function, const char* name, const Shape<4>& shape, const RotaryTable& table,
                  const RotaryPositions& positions);

// x [B, T, H, D] → out, of the same shape. `out` may be x itself; any other overlap is not allowed.
void rotary_forward(View<const float, 4> x, const RotaryTable& table, const RotaryPositions& positions,
                    View<float, 4> out);

// d_out → d_x: rotates by the negative angle. `d_x` may be d_out itself.
void rotary_backward(View<const float, 4> d_out, const RotaryTable& table, const RotaryPositions& positions,
                     View<float, 4> d_x);

}  // namespace heed
