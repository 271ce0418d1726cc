// Losses beside cross-entropy (heed/ops/cross_entropy.h), with PyTorch's maths, forward and backward. Targets are data:
// they have no gradient. The mean over nothing is 0, with gradients of 0; PyTorch's is NaN.
//
// Order of arithmetic: a row is added in double, lane by lane; the rows are added in double, in order. d_loss has the
// shape of the loss, and backward takes forward's options.
#pragma once

#include <cstdint>

#include "heed/core/arena.h"
#include "heed/core/view.h"
#include "heed/ops/gradient.h"
#include "heed/ops/loss_reduction.h"

namespace heed {

// Negative log-likelihood: loss[n] = -w[y] log_probs[n, y] for label y; the mean divides by the sum of w[y] over the
// rows that count.
struct NllOptions {
  View<const float, 1> weight{};  // [V], contiguous: the classes' weights; null: 1
  int64_t ignore_index = -100;    // rows with this label do not count
  LossReduction reduction = LossReduction::mean;
};

// log_probs [N, V], labels [N] → loss, [N] without a reduction, else [1].
void nll_loss_forward(View<const float, 2> log_probs, View<const int64_t, 1> labels, View<float, 1> loss,
                      const NllOptions& options = {});

// d_log_probs [N, V] (+)= -w[y] d_loss at the labels, 0 elsewhere.
void nll_loss_backward(View<const int64_t, 1> labels, View<const float, 1> d_loss, const InputGradient<2>& d_log_probs,
                       const NllOptions& options = {});

// The losses below are of elements. Their views are [N, C] with contiguous rows; the loss is [N, C] without a
// reduction, else [1, 1].

// Kullback-Leibler divergence of the target t from the distribution with these log-probabilities:
// loss = t (log t - log_prob), where 0 log 0 = 0; with log_target, e^t (t - log_prob).
enum class KlReduction {
  mean,        // over all elements
  batch_mean,  // the sum divided by N: the divergence of a row, PyTorch's "batchmean"
  sum,
  none,
};

struct KlOptions {
  bool log_target = false;  // the target is given as log-probabilities
  KlReduction reduction = KlReduction::mean;
};

void kl_div_forward(View<const float, 2> log_probs, View<const float, 2> target, View<float, 2> loss,
                    const KlOptions& options = {}, Arena* arena = nullptr);

// d_log_probs (+)= -t d_loss, or with log_target -e^t d_loss.
void kl_div_backward(View<const float, 2> target, View<const float, 2> d_loss, const InputGradient<2>& d_log_probs,
                     const KlOptions& options = {});

// Binary cross-entropy of logits and targets in [0, 1]:
// loss = weight (pos_weight · target · softplus(-x) + (1 - target) softplus(x)), softplus(x) = log(1 + e^x) in a form
// that neither overflows nor cancels. The mean divides by the number of elements, as PyTorch's does.
struct BinaryCrossEntropyOptions {
  View<const float, 2> weight{};      // [N, C]; a row stride of 0 repeats one row; null: 1
  View<const float, 1> pos_weight{};  // [C], contiguous; null: 1
  LossReduction reduction = LossReduction::mean;
};

void binary_cross_entropy_with_logits_forward(View<const float, 2> x, View<const float, 2> target, View<float, 2> loss,
                                              const BinaryCrossEntropyOptions& options = {}, Arena* arena = nullptr);

// d_x (+)= weight ((1 - target) sigmoid(x) - pos_weight · target · sigmoid(-x)) d_loss. d_x may be x itself.
void binary_cross_entropy_with_logits_backward(View<const float, 2> x, View<const float, 2> target,
                                               View<const float, 2> d_loss, const InputGradient<2>& d_x,
                                               const BinaryCrossEntropyOptions& options = {});

// Squared error: loss = (x - target)².
void mse_loss_forward(View<const float, 2> x, View<const float, 2> target, View<float, 2> loss,
                      LossReduction reduction = LossReduction::mean, Arena* arena = nullptr);

// d_x (+)= 2 (x - target) d_loss. d_x may be x itself.
void mse_loss_backward(View<const float, 2> x, View<const float, 2> target, View<const float, 2> d_loss,
                       const InputGradient<2>& d_x, LossReduction reduction = LossReduction::mean);

}  // namespace heed
