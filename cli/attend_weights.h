// The weights of a layer from safetensors, by the names of PyTorch's MultiheadAttention.
#pragma once

#include <cstdint>
#include <string>

#include "heed/explain/attend_case.h"

namespace heed::cli {

// `reference` is FILE, or FILE:PREFIX where names begin with it. Without out_proj.weight the layer stops at concat.
explain::Layer read_layer_weights(const std::string& reference, int64_t heads, int64_t kv_heads);

}  // namespace heed::cli
