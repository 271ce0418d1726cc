// Random attention problems: sizes, layout, scale, mask, score options and threads, the same for the same seed.
#pragma once

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "heed/parallel/parallel_for.h"
#include "tests/support/attention_case.h"
#include "tests/support/draw.h"
#include "tests/support/score_tensors.h"

namespace heed::test {

// Mostly small and odd, sometimes past a piece, a panel, a block.
inline int64_t draw_length(Draw& draw) {
  switch (draw.below(6)) {
    case 0:
      return draw.between(0, 3);
    case 1:
      return draw.between(90, 210);
    case 2:
      return 16 * draw.between(1, 9);
    default:
      return draw.between(1, 70);
  }
}

struct RandomCase {
  // Sets the number of threads, too.
  explicit RandomCase(uint64_t seed) {
    Draw draw(seed);
    AttentionSizes sizes;
    sizes.batch = draw.between(1, 2);
    sizes.kv_heads = draw.between(1, 2);
    sizes.heads = sizes.kv_heads * draw.between(1, 3);
    sizes.t_q = draw_length(draw);
    sizes.t_k = draw.chance(2) ? sizes.t_q : draw_length(draw);
    sizes.d_k = draw.chance(2) ? 8 * draw.between(1, 5) : draw.between(1, 40);
    sizes.d_v = draw.chance(2) ? sizes.d_k : draw.between(1, 40);
    problem = std::make_unique<AttentionCase>(sizes, static_cast<Layout>(draw.below(3)), seed * 16 + 1);
    if (draw.chance(4)) {
      // Scores of variance up to 1, as the contract's bound supposes; 0 and negative too.
      const float most = 1.0F / std::sqrt(static_cast<float>(sizes.d_k));
      problem->options.scale = 0.25F * most * static_cast<float>(draw.between(-4, 4));
    }
    draw_mask(draw, sizes);
    set_threads(static_cast<int>(draw.between(1, 3)));
  }

  void draw_mask(Draw& draw, const AttentionSizes& sizes) {
    Mask& mask = problem->options.mask;
    const auto positions = [&] {
      switch (draw.below(sizes.t_q == sizes.t_k ? 4 : 3)) {
        case 0:
          return QueryPositions::top_left();
        case 1:
          return QueryPositions::bottom_right();
        case 2:
          return QueryPositions::from(draw.between(-5, 40));
        default:
          return QueryPositions();
      }
    };
    if (draw.chance(2)) mask = mask & Mask::causal(positions());
    if (draw.chance(4)) mask = mask & Mask::window(draw.between(0, 30), draw.between(0, 30), positions());
    if (draw.chance(4)) {
      std::vector<int64_t> lengths;
      for (int64_t b = 0; b < sizes.batch; ++b) lengths.push_back(draw.between(0, sizes.t_k));
      mask = mask & Mask::lengths(lengths);
    }
    if (draw.chance(4)) {
      std::vector<int64_t> starts{0};
      while (starts.back() + 1 < sizes.t_k && !draw.chance(4)) {
        starts.push_back(draw.between(starts.back() + 1, sizes.t_k - 1));
      }
      mask = mask & Mask::documents(starts, positions());
    }
    if (draw.chance(4)) {
      const Shape<4> shape{draw.chance(2) ? 1 : sizes.batch, draw.chance(2) ? 1 : sizes.heads, sizes.t_q, sizes.t_k};
      bits = std::make_unique<bool[]>(static_cast<size_t>(element_count(shape)) + 1);
      for (int64_t i = 0; i < element_count(shape); ++i) bits[static_cast<size_t>(i)] = draw.chance(3);
      const View<const bool, 4> view(bits.get(), shape);
      mask = mask & (draw.chance(2) ? Mask::keep(view) : Mask::block(view));
    }
  }

  std::unique_ptr<AttentionCase> problem;
  std::unique_ptr<bool[]> bits;
};

// A random problem that has, in every other case, random score options.
struct RandomOptionCase {
  explicit RandomOptionCase(uint64_t seed) : random(seed), tensors(*random.problem, seed) {
    Draw draw(seed + 200000);
    if (seed % 2 == 0) options = " options" + tensors.draw_options(draw);
    text = "seed " + std::to_string(seed) + " " + problem().sizes.to_text() + " mask " +
           problem().options.mask.description() + options;
  }
  AttentionCase& problem() { return *random.problem; }

  RandomCase random;
  ScoreTensors tensors;
  std::string options;
  std::string text;
};

}  // namespace heed::test
