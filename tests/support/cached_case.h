// Attention problems put through a cache: the sequences of a batch, appended and decoded in chunks.
#pragma once

#include <span>
#include <vector>

#include "heed/attention/decode.h"
#include "tests/support/attention_case.h"

namespace heed::test {

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

// Appends keys [first, first + count) of every item to its sequence and decodes their queries into c.out and c.rows.
inline void decode_chunk(KvCache& cache, std::span<const int64_t> sequences, AttentionCase& c,
                         const DecodeOptions& options, int64_t first, int64_t count) {
  std::vector<KvChunk> chunks;
  for (size_t b = 0; b < sequences.size(); ++b) {
    chunks.push_back(chunk_of(c, static_cast<int64_t>(b), sequences[b], first, count));
  }
  cache.append(chunks);
  attention_decode(cache, sequences, c.q.slice(1, first, count), options, c.out.slice(1, first, count),
                   {c.rows.reference.slice(2, first, count), c.rows.sum.slice(2, first, count)});
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

}  // namespace heed::test
