// AttendCase: one attention call for `heed attend`: a built-in example, or the user's own tensors, mask and options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/attention/multihead.h"
#include "heed/attention/step_table.h"
#include "heed/core/memory.h"
#include "heed/core/tensor.h"
#include "heed/nn/multihead_weights.h"
#include "heed/trace/trace.h"

namespace heed::explain {

// The projections around attention.
using Layer = MultiHeadWeights;

// How the queries are aligned with the keys. `unstated` is valid only if Tq == Tk.
enum class Align { unstated, top_left, bottom_right };

// True means visible (keep) or hidden (block). Null values: no dense mask.
struct DenseMask {
  std::vector<int64_t> shape;  // [Tq,Tk], [B,Tq,Tk] or [B or 1, H or 1, Tq, Tk]
  AlignedArray<bool> values;
  bool keep = true;
};

// Keys from `left` before the query to `right` after it.
struct Window {
  int64_t left = Mask::kUnlimited;
  int64_t right = Mask::kUnlimited;
};

// Which wrong variants an example shows beside the right one.
enum class Contrast { none, build_up, three_masks };

struct AttendSizes {
  int64_t batch = 0, t_q = 0, t_k = 0, heads = 0, kv_heads = 0, d_k = 0, d_v = 0;

  MaskSizes mask() const { return {batch, heads, t_q, t_k}; }
  int64_t group() const { return heads / kv_heads; }
};

struct AttendCase {
  std::string name;   // of the example; empty for the user's tensors
  std::string title;  // one line
  std::vector<std::string> notes;
  std::vector<std::string> query_tokens, key_tokens;  // empty: unknown
  Contrast contrast = Contrast::none;

  // Either x, perhaps a context, and a layer of `heads` heads …
  Tensor x;        // [B, Tq, C]
  Tensor context;  // [B, Tk, C']; empty: keys and values come from x
  Layer layer;
  int64_t heads = 1;
  int64_t kv_heads = 0;  // 0: same as heads
  // … or q, k and v.
  Tensor q;  // [B, Tq, H, Dk]
  Tensor k;  // [B, Tk, Hkv, Dk]
  Tensor v;  // [B, Tk, Hkv, Dv]

  bool causal = false;
  Align align = Align::unstated;
  std::optional<Window> window;
  std::vector<int64_t> lengths;  // one per item; empty: every key
  DenseMask dense;

  std::optional<float> scale;  // default 1/√Dk
  std::optional<float> soft_cap;
  Tensor alibi_slopes;  // [H]; empty: no ALiBi
  Tensor bias;          // [B or 1, H or 1, Tq, Tk]; empty: none
  Tensor sinks;         // [H]; empty: none
  bool sigmoid = false;

  bool is_self() const { return context.count() == 0; }
};

// The sizes, from the shapes, which are assumed to match.
AttendSizes sizes_of(const AttendCase& given);

// The scale in effect.
float scale_of(const AttendCase& given);

// Mask and options for only the queries `rows`, at their positions in the sequence. Views point into the case.
AttentionOptions options_of(const AttendCase& given, const QueryRange& rows);

// "soft cap 30", "ALiBi", …: the options besides the mask.
std::vector<std::string> option_names(const AttendCase& given);

// A weight [outputs, inputs] or a bias [1, outputs] of the layer, by its step: W_Q, b_Q, …; null if absent.
View<const float, 2> parameter_of(const Layer& layer, AttentionStep step);
// Those that are present: weights, then biases.
std::vector<AttentionStep> parameters_of(const Layer& layer);

// True if this case has the step: the input or parameter is given, or the step is computed separately.
bool takes_step(const AttendCase& given, AttentionStep step);

// The steps that can be shown, inputs and computed steps, in order.
std::vector<std::string> step_names(const AttendCase& given);  // those of this case
const std::vector<std::string>& step_names();                  // those of any case

}  // namespace heed::explain
