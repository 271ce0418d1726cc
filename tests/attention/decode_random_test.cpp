// Random decodes: sizes, chunks, windows, score options, threads, storage and instruction sets, through a cache and a
// arenas that fit exactly between guard pages and begin as NaN. f32 against the bits of the full forward and the
// double reference; bf16 against the double reference on the rounded keys and values.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "heed/core/bf16.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"
#include "tests/support/cached_case.h"
#include "tests/support/draw.h"
#include "tests/support/guarded_memory.h"
#include "tests/support/sanitized.h"
#include "tests/support/score_tensors.h"

namespace heed::test {
namespace {

constexpr int kCases = kSanitized ? 60 : 1000;

AttentionSizes draw_sizes(Draw& draw) {
  AttentionSizes sizes;
  const bool is_long = draw.chance(8);  // and then narrow: the reference takes its time
  sizes.batch = draw.between(1, is_long ? 2 : 3);
  sizes.kv_heads = draw.between(1, is_long ? 2 : 3);
  sizes.heads = sizes.kv_heads * draw.between(1, is_long ? 3 : 6);
  sizes.t_q = sizes.t_k = is_long ? draw.between(100, 400) : draw.between(1, 60);
  sizes.d_k = draw.chance(2) ? 8 * draw.between(1, 9) : draw.between(1, 70);
  sizes.d_v = draw.chance(2) ? sizes.d_k : draw.between(1, 70);
  return sizes;
}

std::vector<int64_t> draw_chunks(Draw& draw, int64_t length) {
  std::vector<int64_t> chunks;
  while (length > 0) {
    const int64_t most = draw.chance(3) ? length : std::min<int64_t>(length, 5);
    chunks.push_back(draw.between(1, most));
    length -= chunks.back();
  }
  return chunks;
}

// All of c through a cache whose memory ends (or begins) at a guard page.
void decode_guarded(AttentionCase& c, KvStorage storage, GuardedMemory::Side side, const DecodeOptions& options,
                    const std::vector<int64_t>& chunks) {
  KvCacheOptions fitting = cache_options(c.sizes, c.sizes.batch * (c.sizes.t_k + kPageKeys - 1), storage);
  const GuardedMemory memory(static_cast<size_t>(KvCache::bytes(fitting)), side);
  fitting.memory = memory.data();
  KvCache cache(fitting);
  c.clear_results();
  decode_in_chunks(cache, add_sequences(cache, c.sizes.batch), c, options, chunks);
}

// The floats that the largest call of this sequence of calls takes from its arena.
size_t arena_floats(AttentionCase& c, KvStorage storage, DecodeOptions options, const std::vector<int64_t>& chunks) {
  Arena arena;
  options.arena = &arena;
  decode_guarded(c, storage, GuardedMemory::Side::begin, options, chunks);
  return arena.capacity_bytes() / sizeof(float);
}

struct RandomDecode {
  explicit RandomDecode(uint64_t seed) : draw(seed), c(draw_sizes(draw), static_cast<Layout>(draw.below(3)), seed) {
    chunks = draw_chunks(draw, c.sizes.t_k);
    c.options.mask = Mask::causal();
    if (draw.chance(3)) {
      options.window_left = draw.between(0, 150);
      c.options.mask = Mask::window(options.window_left, 0);
    }
    if (draw.chance(2)) draw_scores();
    storage = draw.chance(3) ? KvStorage::bf16 : KvStorage::f32;
    set_threads(static_cast<int>(draw.between(1, 4)));
    side = draw.chance(2) ? GuardedMemory::Side::begin : GuardedMemory::Side::end;
  }

  // Dropout knows queries by their positions, so forward's must be their indices.
  void draw_scores() {
    words = tensors.draw_options(draw);
    if (c.options.scores.dropout.probability > 0.0F || draw.chance(2)) c.options.scores.positions = {};
    options.scores = c.options.scores;
  }

  Draw draw;
  AttentionCase c;
  ScoreTensors tensors{c, static_cast<uint64_t>(draw.below(1000))};
  std::string words;  // the score options
  std::vector<int64_t> chunks;
  DecodeOptions options;
  KvStorage storage = KvStorage::f32;
  GuardedMemory::Side side = GuardedMemory::Side::end;
};

TEST(DecodeRandom, has_the_bits_of_forward_and_matches_the_double_reference) {
  const int threads_before = threads();
  for (uint64_t seed = 1; seed <= kCases; ++seed) {
    RandomDecode random(seed);
    AttentionCase& c = random.c;
    if (random.storage == KvStorage::bf16) {
      round_to_bf16(c.k);
      round_to_bf16(c.v);
    }
    const std::vector<double> expected = reference_heads(c);
    const Isa isa = supported_isas()[seed % supported_isas().size()];
    set_isa(isa);
    SCOPED_TRACE("seed " + std::to_string(seed) + " " + std::string(isa_name(isa)) + " " + c.sizes.to_text() +
                 " mask " + c.options.mask.description() + random.words);
    c.forward();
    const std::vector<float> forward = values_of(c.out);
    const size_t count = (arena_floats(c, random.storage, random.options, random.chunks) + 15) / 16 * 16;
    const GuardedMemory memory(count * sizeof(float), random.side);
    Arena arena(memory.data(), count * sizeof(float));
    random.options.arena = &arena;
    decode_guarded(c, random.storage, random.side, random.options, random.chunks);
    // Keys and values that bf16 holds exactly are computed like any others.
    ASSERT_TRUE(same_bits(values_of(c.out), forward));
    ASSERT_LE(relative_error(values_of(c.out), expected), 2e-6);
  }
  set_isa(supported_isas().back());
  set_threads(threads_before);
}

// Rounded keys and values: at most twice the error of exact arithmetic on them.
TEST(DecodeRandom, bf16_is_within_twice_the_error_of_exact_arithmetic_on_the_rounded_inputs) {
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    AttentionCase exact({.t_q = 200, .t_k = 200, .heads = 4, .kv_heads = 2, .d_k = 64, .d_v = 64}, Layout::bthd, seed);
    AttentionCase rounded(exact.sizes, Layout::bthd, seed);
    round_to_bf16(rounded.k);
    round_to_bf16(rounded.v);
    ScoreTensors exact_scores(exact, seed);
    ScoreTensors rounded_scores(rounded, seed);
    for (AttentionCase* c : {&exact, &rounded}) {
      c->options.mask = Mask::causal();
      if (seed > 2) c->options.scores.soft_cap = 5.0F;
    }
    if (seed > 3) exact_scores.use_alibi(), rounded_scores.use_alibi();
    if (seed > 4) exact_scores.use_sinks(), rounded_scores.use_sinks();
    DecodeOptions options;
    options.scores = exact.options.scores;
    const std::vector<double> truth = reference_heads(exact);
    const std::vector<double> best = reference_heads(rounded);
    const std::vector<float> best_floats(best.begin(), best.end());
    for (const Isa isa : supported_isas()) {
      set_isa(isa);
      decode_guarded(exact, KvStorage::bf16, GuardedMemory::Side::end, options, {120, 20, 30, 1, 29});
      EXPECT_LE(relative_error(values_of(exact.out), truth), 2 * relative_error(best_floats, truth));
    }
  }
  set_isa(supported_isas().back());
}

}  // namespace
}  // namespace heed::test
