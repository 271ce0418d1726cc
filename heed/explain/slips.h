// Common slips, reported only if the numbers leave no doubt: the claim matches another formula to the last digit.
#pragma once

#include "heed/explain/grade.h"

namespace heed::explain {

//     kind           what is said (besides broken laws, weight_laws.h)
//     no_w_o         out has the numbers of concat: W_O was left out
//     not_scaled     scaled has the numbers of scores, or weights those of the scores before scaling
//     scaled_twice   scores have the numbers of scaled
//     other_step     rows have the numbers of another step
//     transposed     q, k, v or out is what the transposed weight gives
//     softmax, sigmoid   the weights are this one's, and the file asks for the other
//     scaled_late    the weights were multiplied by the scale after the softmax
//     mask_late      the mask was multiplied in after the softmax
//     mask_times     the scores were multiplied by the mask: a score of 0 still gets a weight
//     no_mask        the weights see hidden keys
//     not_infinite   a large number stands for -∞
//     rounded_early  what the claimed steps before it give; those are right, but have too few digits for it
//     not_carried    agrees with the inputs, though a claimed step before it is wrong and gives something else
std::vector<Remark> find_slips(const WorkedExample& example, const CarriedSteps& steps, const Grading& grading);

}  // namespace heed::explain
