// Embedding: row n of y is the table's row of token n, optionally with a learned position added:
//     y[n] = table[ids[n]] · scale + positions[n % T]
//
// Letters: N tokens, V rows of the table, C width, T positions; the tokens of a batch [B, T] are in order of n.
#pragma once

#include <cstdint>
#include <optional>

#include "heed/core/arena.h"
#include "heed/core/view.h"

namespace heed {

struct EmbeddingTable {
  View<const float, 2> table{};      // [V, C]
  View<const float, 2> positions{};  // [T, C]; null: none
  float scale = 1.0F;                // of the table's rows
};

// ids [N], each in 0 … V-1 → y [N, C]. Rows are contiguous. Without a scale and positions, rows are copied exactly.
void embedding_forward(View<const int64_t, 1> ids, const EmbeddingTable& table, View<float, 2> y);

struct EmbeddingGradients {
  View<float, 2> table{};                // [V, C]: added to
  View<float, 2> positions{};            // [T, C]: added to
  std::optional<int64_t> padding_idx{};  // the row of `table` that receives nothing
};

// d_table[v] += scale · Σ d_y[n] over the tokens n with ids[n] = v;  d_positions[t] += Σ d_y[n] over n % T = t. Each of
// these sums runs over blocks of kEmbeddingBlock of its own tokens, each in order, added in order: the rest of the
// batch changes no bit of a row. A row that no token names is neither read nor written. The arena has up to 32 bytes
// for each token, and some more.
void embedding_backward(View<const int64_t, 1> ids, View<const float, 2> d_y, float scale,
                        const EmbeddingGradients& gradients, Arena* arena = nullptr);

inline constexpr int64_t kEmbeddingBlock = 32;

}  // namespace heed
