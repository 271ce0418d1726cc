// Causal attention with nothing but the installed package.
#include <algorithm>
#include <cmath>
#include <cstdio>

#include "heed/heed.h"

int main() {
  // One item, 10 tokens, 4 query heads that share 2 key/value heads, 16 wide.
  heed::Tensor q({1, 10, 4, 16});
  heed::Tensor k({1, 10, 2, 16});
  heed::Tensor v({1, 10, 2, 16});
  heed::Rng(1).fill_normal(q.values());
  heed::Rng(2).fill_normal(k.values());
  heed::Rng(3).fill_normal(v.values());

  const heed::Tensor out = heed::attention(q, k, v, {.mask = heed::Mask::causal()});

  // The first query sees only the first key: its output is that key's value (query head 3 reads key/value head 1).
  float difference = 0.0F;
  for (int d = 0; d < 16; ++d) {
    difference = std::max(difference, std::abs(out.view<4>()(0, 0, 3, d) - v.view<4>()(0, 0, 1, d)));
  }
  std::printf("the first row differs from v by %g\n", difference);
  return difference < 1e-6F ? 0 : 1;
}
