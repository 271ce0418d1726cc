// Panels: how the columns of a [K, N] factor are split for the register tile. A panel is a [K][width] strip in memory,
// a few vectors wide.
#pragma once

#include <cstdint>

#include "heed/simd/isa.h"

namespace heed {

struct Panel {
  int64_t column = 0;  // its first column
  int vectors = 0;     // its width in vectors
};

// `wide` panels of `wide_vectors` vectors, then `narrow` panels of `narrow_vectors`. The narrow ones avoid a last panel
// of one or two vectors where possible: six vectors are 3 + 3, not 4 + 2, because thin tiles are slow.
struct PanelLayout {
  int64_t columns = 0;  // N
  int lanes = 1;        // floats per vector
  int wide_vectors = 1;
  int narrow_vectors = 1;
  int64_t wide = 0;
  int64_t narrow = 0;

  int64_t count() const { return wide + narrow; }
  int64_t padded_columns() const { return (wide * wide_vectors + narrow * narrow_vectors) * lanes; }

  Panel operator[](int64_t index) const {
    if (index < wide) return {index * wide_vectors * lanes, wide_vectors};
    return {(wide * wide_vectors + (index - wide) * narrow_vectors) * lanes, narrow_vectors};
  }
};

// Floats per vector, and vectors of the widest panel: 6 × 4 tiles on AVX-512, else 6 × 2.
constexpr int panel_lanes(Isa isa) { return isa == Isa::avx512 ? 16 : isa == Isa::avx2 ? 8 : 4; }
constexpr int most_panel_vectors(Isa isa) { return isa == Isa::avx512 ? 4 : 2; }

// The layout for an instruction set.
PanelLayout panel_layout(Isa isa, int64_t columns);

}  // namespace heed
