// Mask and score options of `heed attend`, on an example or on a user's own tensors.
#pragma once

#include "cli/attend_flags.h"
#include "heed/explain/attend_case.h"

namespace heed::cli {

// Reads what files say, and refuses what does not fit the case or contradicts itself.
void apply_options(const AttendFlags& flags, explain::AttendCase& given);

}  // namespace heed::cli
