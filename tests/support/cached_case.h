// Attention problems put through a cache: the sequences of a batch, appended and decoded in chunks.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "heed/attention/decode.h"
#include "heed/core/bf16.h"
#include "tests/support/attention_case.h"

namespace heed::test {

// In bf16's values, which a cache of either storage holds exactly.
inline void round_to_bf16(View<float, 4> view) {
  for (int64_t b = 0; b < view.size(0); ++b) {
    for (int64_t t = 0; t < view.size(1); ++t) {
      for (int64_t h = 0; h < view.size(2); ++h) {
        for (int64_t d = 0; d < view.size(3); ++d) view(b, t, h, d) = from_bf16(to_bf16(view(b, t, h, d)));
      }
    }
  }
}

// A cache that fits the problem's sizes.
inline KvCacheOptions cache_options(const AttentionSizes& sizes, int64_t capacity, KvStorage storage = KvStorage::f32) {
  KvCacheOptions options;
  options.capacity = capacity;
  options.sequences = 32;
  options.kv_heads = sizes.kv_heads;
  options.d_k = sizes.d_k;
  options.d_v = sizes.d_v;
  options.storage = storage;
  return options;
}

// Keys [first, first + count) of item b as the next chunk of a sequence.
inline KvChunk chunk_of(const AttentionCase& c, int64_t b, int64_t sequence, int64_t first, int64_t count) {
  return {sequence, first, View<const float, 4>(c.k)[b].slice(0, first, count),
          View<const float, 4>(c.v)[b].slice(0, first, count)};
}

// What the score options of the full forward are for queries [first, first + count) and the keys up to them.
inline ScoreOptions options_of_chunk(const ScoreOptions& full, int64_t first, int64_t count) {
  ScoreOptions scores = full;
  if (scores.bias.data() != nullptr) scores.bias = scores.bias.slice(2, first, count).slice(3, 0, first + count);
  if (scores.positions.is_stated()) scores.positions = QueryPositions::from(full.positions.offset({}, 0) + first);
  return scores;
}

// Appends keys [first, first + count) of every item to its sequence and decodes their queries into c.out and c.rows.
// The score options are those of the full forward.
inline void decode_chunk(KvCache& cache, std::span<const int64_t> sequences, AttentionCase& c,
                         const DecodeOptions& options, int64_t first, int64_t count) {
  std::vector<KvChunk> chunks;
  for (size_t b = 0; b < sequences.size(); ++b) {
    chunks.push_back(chunk_of(c, static_cast<int64_t>(b), sequences[b], first, count));
  }
  cache.append(chunks);
  DecodeOptions of_chunk = options;
  of_chunk.scores = options_of_chunk(options.scores, first, count);
  const RowStates<float> rows{c.rows.shift.slice(2, first, count), c.rows.sum.slice(2, first, count)};
  attention_decode(cache, sequences, c.q.slice(1, first, count), of_chunk, c.out.slice(1, first, count), rows);
}

// Everything of c, in chunks of the given sizes (their sum is Tq = Tk).
inline void decode_in_chunks(KvCache& cache, std::span<const int64_t> sequences, AttentionCase& c,
                             const DecodeOptions& options, std::span<const int64_t> sizes) {
  int64_t first = 0;
  for (const int64_t count : sizes) {
    decode_chunk(cache, sequences, c, options, first, count);
    first += count;
  }
}

// New sequences, one for each item of the batch.
inline std::vector<int64_t> add_sequences(KvCache& cache, int64_t count) {
  std::vector<int64_t> sequences;
  for (int64_t i = 0; i < count; ++i) sequences.push_back(cache.add());
  return sequences;
}

// Everything that a forward or a decode writes.
struct DecodeBits {
  std::vector<float> out, shift, sum;
};

inline DecodeBits bits_of(const AttentionCase& c) {
  return {values_of(c.out), values_of(c.rows.shift), values_of(c.rows.sum)};
}

inline void expect_same(const DecodeBits& got, const DecodeBits& expected) {
  EXPECT_TRUE(same_bits(got.out, expected.out)) << "out";
  EXPECT_TRUE(same_bits(got.shift, expected.shift)) << "shift";
  EXPECT_TRUE(same_bits(got.sum, expected.sum)) << "sum";
}

// The full forward under the mask that decode implies.
inline DecodeBits forward_bits(AttentionCase& c, const Mask& mask = Mask::causal()) {
  c.options.mask = mask;
  c.clear_results();
  c.forward();
  return bits_of(c);
}

// Everything of c decoded in chunks, with a cache of its own and the case's score options.
inline DecodeBits decode_bits(AttentionCase& c, const std::vector<int64_t>& chunks, DecodeOptions options = {}) {
  KvCache cache(cache_options(c.sizes, c.sizes.batch * (c.sizes.t_k + kPageKeys)));
  options.scores = c.options.scores;
  c.clear_results();
  decode_in_chunks(cache, add_sequences(cache, c.sizes.batch), c, options, chunks);
  return bits_of(c);
}

// Chunks of one size, the last one shorter.
inline std::vector<int64_t> even_chunks(int64_t length, int64_t size) {
  std::vector<int64_t> chunks;
  for (int64_t first = 0; first < length; first += size) chunks.push_back(std::min(size, length - first));
  return chunks;
}

}  // namespace heed::test
