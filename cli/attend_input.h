// From flags to what is attended to: reads tensors, weights, masks and options, and refuses what does not fit.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/attend_flags.h"
#include "cli/attend_layout.h"
#include "heed/explain/attend.h"

namespace heed::cli {

struct AttendInput {
  explain::AttendCase given;
  std::optional<TensorLayout> layout;   // of q, k and v; none for tokens
  bool batched = true;                  // tokens were [B, T, C]; else [T, C]
  Tensor d_out;                         // as explain takes it; empty: ones
  std::vector<std::string> warnings{};  // for standard error
};

AttendInput read_input(const AttendFlags& flags);

// The result in the layout of q, or of x.
Tensor in_users_layout(const AttendInput& input, Tensor output);

}  // namespace heed::cli
