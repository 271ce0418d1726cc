// Losses on a tape: the number that backward() starts from.
//
// With a mean or a sum the result has rank 0; without a reduction it has one loss for each row or element. Labels are
// copied; views in options (weights) are read again in backward and must stay until then. Targets are data: one that
// needs a gradient is refused, detach() it. The maths is in heed/ops/cross_entropy.h and heed/ops/losses.h.
#pragma once

#include <cstdint>
#include <span>

#include "heed/autograd/var.h"
#include "heed/ops/cross_entropy.h"
#include "heed/ops/losses.h"

namespace heed {

// logits [..., V], a label for each row.
Var cross_entropy(const Var& logits, std::span<const int64_t> labels, const CrossEntropyOptions& options = {});

// cross_entropy(linear(x, weight, bias), labels) without ever storing all logits: x [..., C], weight [V, C], bias [V]
// or empty. The gradients are computed in forward, so that backward only scales them; hence a reduction is needed.
Var linear_cross_entropy(const Var& x, const Var& weight, const Var& bias, std::span<const int64_t> labels,
                         const CrossEntropyOptions& options = {});

// log_probs [..., V], a label for each row.
Var nll_loss(const Var& log_probs, std::span<const int64_t> labels, const NllOptions& options = {});

// log_probs and target [..., C]: a distribution in each row.
Var kl_div(const Var& log_probs, const Var& target, const KlOptions& options = {});

// x and target of one shape, the columns of the options being its last dimension.
Var binary_cross_entropy_with_logits(const Var& x, const Var& target, const BinaryCrossEntropyOptions& options = {});

// x and target of one shape.
Var mse_loss(const Var& x, const Var& target, LossReduction reduction = LossReduction::mean);

}  // namespace heed
