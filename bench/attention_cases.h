// The table of attention rows that `heed bench attention` measures.
#pragma once

#include <string>
#include <vector>

#include "bench/row.h"
#include "bench/selection.h"
#include "heed/attention/mask.h"

namespace heed::bench {

struct AttentionCase {
  CaseName label;
  std::string kind;  // forward, backward, both, insight, memory
  AttentionSizes sizes;
  std::string base;          // the case it is compared with, in alternation; empty: none
  bool all_threads = false;  // runs on all threads, its base on one
};

// Every case, in the order of the table.
const std::vector<AttentionCase>& attention_cases();

Mask mask_of(const AttentionSizes& sizes);

// Useful floating-point operations of a call: 4 · dim for each visible pair and head forward, 2.5 times that backward,
// 3.5 times for both; insight counts as the forward of its rows, so that the two compare by time. A layer adds its four
// projections: 2 · inputs · outputs a token forward, twice that backward.
double attention_flops(const std::string& kind, const AttentionSizes& sizes);

}  // namespace heed::bench
