#include "cli/attend_input.h"

#include <algorithm>
#include <cmath>

#include "cli/attend_options.h"
#include "cli/command_line.h"
#include "heed/core/suggest.h"
#include "heed/explain/examples.h"
#include "heed/io/array.h"
#include "heed/nn/multihead_weights.h"

namespace heed::cli {
namespace {

using explain::AttendCase;

[[noreturn]] void refuse(const std::string& message, const std::string& hint) {
  throw CommandError("usage.input", message, hint);
}

// Exactly one kind of input, and all of it.
void check_input_flags(const AttendFlags& f) {
  const bool heads = !f.q.empty() || !f.k.empty() || !f.v.empty();
  const bool tokens = !f.x.empty() || !f.context.empty() || !f.weights.empty();
  const bool example = !f.example.empty();
  if (!heads && !tokens && !example) {
    refuse("heed attend needs something to attend to",
           "--example NAME (--list shows them), or --q --k --v, or --x --weights --heads");
  }
  if (example && (heads || tokens)) {
    refuse("--example brings its own tensors, and " +
               std::string(heads ? "--q, --k, --v" : "--x, --context, --weights") + " bring others",
           "give one or the other");
  }
  if (heads && tokens)
    refuse("--q, --k, --v and --x, --context, --weights exclude each other", "give one or the other");
  if (heads && (f.q.empty() || f.k.empty() || f.v.empty())) {
    refuse(std::string("--") +
               (f.q.empty()   ? "q"
                : f.k.empty() ? "k"
                              : "v") +
               " is missing",
           "attention takes --q, --k and --v together");
  }
  if (tokens && f.x.empty()) refuse("--x is missing", "--x X.npy [--context C.npy] --weights W.safetensors --heads H");
  if (tokens && f.weights.empty()) refuse("--weights is missing", "--x needs the weights that make q, k and v of it");
  if (tokens && !f.heads) refuse("--heads is missing", "weights do not tell the number of heads: give --heads H");
  if (example && (f.heads || f.kv_heads || !f.layout.empty())) {
    refuse("--heads, --kv-heads and --layout are for your own tensors; an example has its own", "leave them out");
  }
  if (tokens && !f.layout.empty()) refuse("--layout is for --q, --k and --v", "leave it out: --x is [T,C] or [B,T,C]");
  if (f.heads && *f.heads < 1) refuse("--heads is " + std::to_string(*f.heads), "give 1 or more");
  if (f.kv_heads && *f.kv_heads < 1) refuse("--kv-heads is " + std::to_string(*f.kv_heads), "give 1 or more");
  if (heads && f.no_out) refuse("--no-out leaves W_O out, and --q, --k, --v have none", "leave --no-out out");
  if (!f.d_out.empty() && !f.grad) refuse("--d-out is the gradient that arrives; none is asked for", "add --grad");
}

Tensor read_tensor(const std::string& reference, AttendInput& input) {
  io::Array array = io::read_array(reference);
  if (array.nonfinite > 0) {
    input.warnings.push_back(printable(reference) + " holds " + std::to_string(array.nonfinite) +
                             (array.nonfinite == 1 ? " value that is" : " values that are") +
                             " not finite; rows that see one are not finite either");
  }
  return std::move(array.values);
}

AttendCase example_of(const std::string& name) {
  std::vector<std::string> names;
  for (const explain::ExampleName& each : explain::example_names()) names.push_back(each.name);
  if (std::find(names.begin(), names.end(), name) != names.end()) return explain::example(name);
  const std::string near = did_you_mean(name, names);
  throw CommandError("usage.unknown_example", "unknown example '" + name + "'",
                     (near.empty() ? "" : near + " ") + "heed attend --list shows them all");
}

std::string shape_text(const Tensor& tensor) { return to_text(tensor.shape()); }

[[noreturn]] void refuse_shapes(const std::string& message, const std::string& hint, const std::string& place) {
  throw CommandError("data.shapes", message, hint, kBadData, place);
}

void read_heads(const AttendFlags& f, AttendInput& input) {
  AttendCase& given = input.given;
  const Tensor q = read_tensor(f.q, input), k = read_tensor(f.k, input), v = read_tensor(f.v, input);
  if (q.rank() != k.rank() || k.rank() != v.rank()) {
    refuse_shapes("q " + shape_text(q) + ", k " + shape_text(k) + " and v " + shape_text(v) + " are not of one rank",
                  "give all three in the same layout", f.q);
  }
  input.layout = TensorLayout(q.rank(), f.heads.has_value(), f.layout, f.q);
  if (f.kv_heads && !input.layout->is_flat() && input.layout->rank() == 2) {
    refuse("--kv-heads is given, but " + input.layout->text() + " has no heads", "add --heads, or leave it out");
  }
  const int64_t heads = f.heads.value_or(1);
  given.q = input.layout->to_bthd(q, heads, f.q);
  given.k = input.layout->to_bthd(k, f.kv_heads.value_or(heads), f.k);
  given.v = input.layout->to_bthd(v, f.kv_heads.value_or(heads), f.v);
  const auto& qs = given.q.shape();
  const auto& ks = given.k.shape();
  const auto& vs = given.v.shape();
  const std::string shapes = "q " + shape_text(q) + ", k " + shape_text(k) + ", v " + shape_text(v);
  const std::string lie = "they are taken as " + input.layout->text();
  if (qs[0] != ks[0] || ks[0] != vs[0]) refuse_shapes(shapes + ": the batch sizes differ", lie, f.k);
  if (ks[1] != vs[1]) refuse_shapes(shapes + ": there must be a value for each key", lie, f.v);
  if (ks[2] != vs[2]) refuse_shapes(shapes + ": keys and values must have as many heads", lie, f.v);
  if (qs[3] != ks[3]) refuse_shapes(shapes + ": queries and keys must be of one width", lie, f.k);
  if (ks[2] == 0 || qs[2] % std::max<int64_t>(1, ks[2]) != 0) {
    refuse_shapes(shapes + ": the heads of q must be a multiple of those of k and v", lie, f.k);
  }
  if (f.kv_heads && *f.kv_heads != ks[2]) {
    refuse_shapes("--kv-heads is " + std::to_string(*f.kv_heads) + ", but k has " + std::to_string(ks[2]) + " heads",
                  lie, f.k);
  }
  if (qs[3] == 0 || vs[3] == 0) refuse_shapes(shapes + ": a head must not have width 0", lie, f.q);
  given.title = "attention of " + printable(f.q) + ", " + printable(f.k) + " and " + printable(f.v);
}

// Tokens [T, C] or [B, T, C] as [B, T, C].
Tensor read_tokens(const std::string& reference, bool& batched, AttendInput& input) {
  Tensor tokens = read_tensor(reference, input);
  batched = tokens.rank() == 3;
  if (tokens.rank() == 3) return tokens;
  if (tokens.rank() != 2) {
    refuse_shapes("tokens have shape " + shape_text(tokens), "give [T,C] or [B,T,C]", reference);
  }
  Tensor made({1, tokens.shape()[0], tokens.shape()[1]});
  std::copy(tokens.values().begin(), tokens.values().end(), made.values().begin());
  return made;
}

void read_layer(const AttendFlags& f, AttendInput& input) {
  AttendCase& given = input.given;
  bool context_batched = false;
  given.x = read_tokens(f.x, input.batched, input);
  if (!f.context.empty()) {
    given.context = read_tokens(f.context, context_batched, input);
    if (given.context.count() == 0) {
      refuse_shapes("the context is empty: " + shape_text(given.context), "give at least one token", f.context);
    }
    if (given.context.shape()[0] != given.x.shape()[0]) {
      refuse_shapes(
          "x is " + shape_text(given.x) + " and the context " + shape_text(given.context) + ": the batch sizes differ",
          "give as many items in both", f.context);
    }
  }
  given.heads = *f.heads;
  given.kv_heads = f.kv_heads.value_or(*f.heads);
  if (given.heads % given.kv_heads != 0) {
    throw CommandError("usage.kv_heads",
                       "the " + std::to_string(given.heads) + " heads are not a multiple of the " +
                           std::to_string(given.kv_heads) + " key/value heads",
                       "each key/value head serves equally many heads");
  }
  const io::ArrayReference weights = io::split_reference(f.weights);
  given.layer = load_multihead(weights.file, weights.name, {given.heads, given.kv_heads});
  const auto check_width = [&](const Tensor& tokens, int64_t width, const char* name, const std::string& file) {
    if (tokens.shape()[2] == width) return;
    refuse_shapes("tokens " + shape_text(tokens) + " have width " + std::to_string(tokens.shape()[2]) + ", but " +
                      name + " takes " + std::to_string(width),
                  "the weights belong to another model, or the tokens are transposed", file);
  };
  const Tensor& keys = given.is_self() ? given.x : given.context;
  const std::string& keys_file = given.is_self() ? f.x : f.context;
  check_width(given.x, given.layer.in_shapes[0][1], "W_Q", f.x);
  check_width(keys, given.layer.in_shapes[1][1], "W_K", keys_file);
  check_width(keys, given.layer.in_shapes[2][1], "W_V", keys_file);
  given.title = "multi-head attention of " + printable(f.x) + (f.context.empty() ? "" : " to " + printable(f.context)) +
                " with " + printable(f.weights);
}

// d_out as explain takes it: [B, Tq, H, Dv], or [B, Tq, C] of a layer.
void read_d_out(const AttendFlags& f, AttendInput& input) {
  const AttendCase& given = input.given;
  const explain::AttendSizes s = sizes_of(given);
  Tensor d_out = read_tensor(f.d_out, input);
  std::vector<int64_t> expected{s.batch, s.t_q, s.heads, s.d_v};
  if (given.layer.given()) {
    expected = {s.batch, s.t_q, given.layer.out.count() > 0 ? given.layer.out.shape()[0] : s.heads * s.d_v};
    if (d_out.rank() == 2) {
      Tensor made({1, d_out.shape()[0], d_out.shape()[1]});
      std::copy(d_out.values().begin(), d_out.values().end(), made.values().begin());
      d_out = std::move(made);
    }
  } else if (input.layout && d_out.rank() == input.layout->rank()) {
    d_out = input.layout->to_bthd(d_out, s.heads, f.d_out);
  } else if (!input.layout && d_out.rank() == 2) {  // an example of one head
    d_out = TensorLayout(2, false, "", f.d_out).to_bthd(d_out, 1, f.d_out);
  }
  if (d_out.shape() != expected) {
    refuse_shapes("the gradient has shape " + shape_text(d_out) + ", but the result has " + to_text(expected),
                  "it must be of the result's shape and layout", f.d_out);
  }
  input.d_out = std::move(d_out);
}

}  // namespace

AttendInput read_input(const AttendFlags& flags) {
  check_input_flags(flags);
  AttendInput input;
  if (!flags.example.empty()) {
    input.given = example_of(flags.example);
  } else if (!flags.q.empty()) {
    read_heads(flags, input);
  } else {
    read_layer(flags, input);
  }
  apply_options(flags, input.given);
  if (!flags.d_out.empty()) read_d_out(flags, input);
  return input;
}

Tensor in_users_layout(const AttendInput& input, Tensor output) {
  if (input.layout) return input.layout->from_bthd(output);
  const bool one_item = output.shape()[0] == 1;
  const bool example = !input.given.name.empty();
  if (input.given.layer.given()) {
    if (input.batched && !example) return output;
    if (!one_item) return output;
    Tensor made({output.shape()[1], output.shape()[2]});
    std::copy(output.values().begin(), output.values().end(), made.values().begin());
    return made;
  }
  return TensorLayout(output.shape()[2] == 1 ? 2 : 3, false, "", "").from_bthd(output);
}

}  // namespace heed::cli
