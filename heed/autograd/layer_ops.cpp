#include "heed/autograd/layer_ops.h"

#include <algorithm>
#include <array>
#include <utility>

#include "heed/autograd/tape.h"
#include "heed/core/error.h"
#include "heed/ops/dropout.h"
#include "heed/ops/embedding.h"
#include "heed/ops/glu.h"
#include "heed/ops/norm.h"

namespace heed {
namespace {

View<const float, 1> vector_or_null(const Var& var) { return var.given() ? var.value<1>() : View<const float, 1>(); }

// Two inputs of an op may be one Var: then both gradients go to the same memory, one after the other.
bool same_memory(const InputGradient<2>& a, const InputGradient<2>& b) {
  return a.view.data() != nullptr && a.view.data() == b.view.data();
}

// The shape with one more dimension at the end.
Dims with_last(const Dims& shape, int64_t last) {
  std::array<int64_t, Dims::kMostRank> sizes{};
  *std::copy(shape.begin(), shape.end(), sizes.begin()) = last;
  return Dims(std::span<const int64_t>(sizes).first(static_cast<size_t>(shape.rank()) + 1));
}

struct EmbeddingOpSaved {
  Var table;
  EmbeddingOpOptions options;
  View<const int64_t, 1> ids;  // [N]
  int64_t tokens;              // of an item
};

void embedding_op_backward(const EmbeddingOpSaved& saved, const Var& y) {
  EmbeddingGradients gradients;
  gradients.table = saved.table.added<2>();
  gradients.padding_idx = saved.options.padding_idx;
  if (saved.options.positions.given())
    gradients.positions = saved.options.positions.added<2>().slice(0, 0, saved.tokens);
  embedding_backward(saved.ids, y.arrived_rows(), saved.options.scale, gradients, &y.tape().scratch());
}

// Any of the norms; the residual, sum, gamma and beta may be empty.
struct NormOpSaved {
  Var x, residual, sum, gamma, beta;
  NormOptions options;
  View<float, 1> mean, rstd;  // [rows]
};

void norm_op_backward(const NormOpSaved& saved, const Var& y) {
  const bool has_residual = saved.residual.given();
  if (y.arrived() == nullptr) {  // only the sum was used: a copy for x, and the residual takes the rest
    const View<const float, 2> d_sum = saved.sum.arrived_rows();
    activation_backward(Activation::none, d_sum, d_sum, saved.x.input_gradient_rows());
    return saved.residual.take_gradient_of(saved.sum);
  }
  const NormSaved forward{saved.options.kind, has_residual ? saved.sum.rows() : saved.x.rows(),
                          vector_or_null(saved.gamma), saved.mean, saved.rstd};
  View<const float, 2> d_sum;
  NormGradients gradients;
  if (saved.gamma.given()) gradients.gamma = saved.gamma.added<1>();
  if (saved.beta.given()) gradients.beta = saved.beta.added<1>();
  gradients.x = saved.x.input_gradient_rows();
  InputGradient<2> second;
  if (has_residual) {
    d_sum = saved.sum.arrived_rows();
    gradients.residual = saved.residual.input_gradient_rows();
    if (same_memory(gradients.x, gradients.residual)) second = std::exchange(gradients.residual, {});
  }
  Arena& arena = y.tape().scratch();
  norm_backward(forward, y.arrived_rows(), d_sum, gradients, &arena);
  if (second.view.data() != nullptr) norm_backward(forward, y.arrived_rows(), d_sum, {.x = second}, &arena);
}

void check_parameter(const char* function, const char* name, const Var& parameter, const Var& x) {
  check(!parameter.given() || parameter.shape() == Dims{x.size(-1)}, function, name, " has shape ", parameter.shape(),
        ", expected ", Dims{x.size(-1)}, ", the last size of x ", x.shape());
}

// Fills in the rest of `saved`, which has the inputs and options.
NormedSum norm(const char* function, NormOpSaved saved) {
  const auto& [x, residual, sum, gamma, beta, options, mean, rstd] = saved;
  check(x.rank() >= 1, function, "x is a single number; it must have a last dimension to normalise over");
  check(!residual.given() || residual.shape() == x.shape(), function, "residual has shape ", residual.shape(),
        ", expected that of x, ", x.shape());
  check_parameter(function, "gamma", gamma, x);
  check_parameter(function, "beta", beta, x);
  Tape& tape = x.tape();
  const Var y = tape.output(x.shape(), {x, residual, gamma, beta});
  NormInputs inputs{x.rows(), {}, vector_or_null(gamma), vector_or_null(beta)};
  NormOutputs outputs;
  outputs.y = y.output_rows();
  if (residual.given()) {
    saved.sum = tape.output(x.shape(), {x, residual});
    inputs.residual = residual.rows();
    outputs.sum = saved.sum.output_rows();
  }
  if (y.needs_gradient()) {
    const int64_t rows = outputs.y.size(0);
    if (options.kind == NormKind::layer) saved.mean = {tape.keep<float>(rows), {rows}};
    saved.rstd = {tape.keep<float>(rows), {rows}};
    outputs.mean = saved.mean;
    outputs.rstd = saved.rstd;
  }
  norm_forward(inputs, outputs, options);
  return {saved.sum, tape.record<norm_op_backward>(y, saved, residual.given() ? 1 : 0)};
}

struct DropoutOpSaved {
  Var x, residual;
  DropoutOptions options;
};

void dropout_op_backward(const DropoutOpSaved& saved, const Var& y) {
  dropout_backward(saved.options, y.arrived_rows(), saved.x.input_gradient_rows());
  if (saved.residual.given()) saved.residual.take_gradient_of(y);
}

struct ActivateSaved {
  Var x;
  Activation activation;
};

void activate_backward(const ActivateSaved& saved, const Var& y) {
  activation_backward(saved.activation, saved.x.rows(), y.arrived_rows(), saved.x.input_gradient_rows());
}

struct GluSaved {
  Var gate, x;  // x is empty where both are halves of `gate`
  Activation activation;
};

// The two factors among the columns of a [rows, 2C] matrix.
template <class T>
View<T, 2> half(const View<T, 2>& both, int which) {
  const int64_t width = both.size(1) / 2;
  return both.slice(1, which * width, width);
}

void glu_op_backward(const GluSaved& saved, const Var& y) {
  const View<const float, 2> d_y = y.arrived_rows();
  if (!saved.x.given()) {
    const View<const float, 2> both = saved.gate.rows();
    const InputGradient<2> d = saved.gate.input_gradient_rows();
    if (d.view.data() == nullptr) return;
    return glu_backward(saved.activation, half(both, 0), half(both, 1), d_y,
                        {{half(d.view, 0), d.add}, {half(d.view, 1), d.add}});
  }
  GluGradients gradients{saved.gate.input_gradient_rows(), saved.x.input_gradient_rows()};
  InputGradient<2> second;
  if (same_memory(gradients.a, gradients.b)) second = std::exchange(gradients.b, {});
  glu_backward(saved.activation, saved.gate.rows(), saved.x.rows(), d_y, gradients);
  glu_backward(saved.activation, saved.gate.rows(), saved.x.rows(), d_y, {.b = second});
}

}  // namespace

Var embedding(std::span<const int64_t> ids, const Dims& ids_shape, const Var& table,
              const EmbeddingOpOptions& options) {
  constexpr const char* kName = "embedding";
  check(ids_shape.count() == static_cast<int64_t>(ids.size()), kName, "there are ", ids.size(), " ids for the shape ",
        ids_shape);
  check(ids_shape.rank() >= 1 && ids_shape.rank() < Dims::kMostRank, kName, "ids have shape ", ids_shape,
        ", expected [..., T]");
  check(table.rank() == 2, kName, "table has shape ", table.shape(), ", expected [V, C]");
  const int64_t tokens = ids_shape[-1];
  const Var& positions = options.positions;
  check(!positions.given() ||
            (positions.rank() == 2 && positions.size(0) >= tokens && positions.size(1) == table.size(1)),
        kName, "positions have shape ", positions.shape(), ", expected [T, C] with T of at least ", tokens,
        " for ids of shape ", ids_shape, " and C = ", table.size(1));
  const std::optional<int64_t>& padding = options.padding_idx;
  check(!padding || (*padding >= 0 && *padding < table.size(0)), kName, "padding_idx is ", padding.value_or(0),
        ", but the table has ", table.size(0), " rows");
  Tape& tape = table.tape();
  const Var y = tape.output(with_last(ids_shape, table.size(1)), {table, positions});
  EmbeddingOpSaved saved{table, options, {ids.data(), {ids_shape.count()}}, tokens};
  EmbeddingTable forward{table.value<2>(), {}, options.scale};
  if (positions.given()) forward.positions = positions.value<2>().slice(0, 0, tokens);
  embedding_forward(saved.ids, forward, y.output_rows());
  if (y.needs_gradient()) {
    auto* const kept = tape.keep<int64_t>(ids_shape.count());
    std::copy(ids.begin(), ids.end(), kept);
    saved.ids = {kept, {ids_shape.count()}};
  }
  return tape.record<embedding_op_backward>(y, saved);
}

Var embedding(const TensorOf<int64_t>& ids, const Var& table, const EmbeddingOpOptions& options) {
  return embedding(ids.values(), Dims(ids.shape()), table, options);
}

Var layer_norm(const Var& x, const Var& gamma, const Var& beta, std::optional<float> eps) {
  return norm("layer_norm", {x, {}, {}, gamma, beta, {NormKind::layer, eps}, {}, {}}).y;
}

Var rms_norm(const Var& x, const Var& gamma, std::optional<float> eps) {
  return norm("rms_norm", {x, {}, {}, gamma, {}, {NormKind::rms, eps}, {}, {}}).y;
}

NormedSum add_layer_norm(const Var& x, const Var& residual, const Var& gamma, const Var& beta,
                         std::optional<float> eps) {
  check(residual.given(), "add_layer_norm", "the residual is empty; layer_norm has none");
  return norm("add_layer_norm", {x, residual, {}, gamma, beta, {NormKind::layer, eps}, {}, {}});
}

NormedSum add_rms_norm(const Var& x, const Var& residual, const Var& gamma, std::optional<float> eps) {
  check(residual.given(), "add_rms_norm", "the residual is empty; rms_norm has none");
  return norm("add_rms_norm", {x, residual, {}, gamma, {}, {NormKind::rms, eps}, {}, {}});
}

Var dropout(const Var& x, float p, const Var& residual) {
  constexpr const char* kName = "dropout";
  check(p >= 0.0F && p <= 1.0F, kName, "p is ", p, "; it is a probability, in 0 … 1");
  check(!residual.given() || residual.shape() == x.shape(), kName, "residual has shape ", residual.shape(),
        ", expected that of x, ", x.shape());
  Tape& tape = x.tape();
  DropoutOptions options;
  if (tape.training() && p > 0.0F) {
    options = {p, tape.step_key().seed, tape.step_key().step, tape.next_dropout_site()};
  } else if (!residual.given()) {
    return x;
  }
  const Var y = tape.output(x.shape(), {x, residual});
  dropout_forward(options, x.rows(), residual.given() ? residual.rows() : View<const float, 2>(), y.output_rows());
  return tape.record<dropout_op_backward>(y, DropoutOpSaved{x, residual, options});
}

Var activate(const Var& x, Activation activation) {
  if (activation == Activation::none) return x;
  const Var y = x.tape().output(x.shape(), {x});
  activation_forward(activation, x.rows(), {}, y.output_rows());
  return x.tape().record<activate_backward>(y, ActivateSaved{x, activation});
}

Var relu(const Var& x) { return activate(x, Activation::relu); }
Var gelu(const Var& x) { return activate(x, Activation::gelu); }
Var gelu_tanh(const Var& x) { return activate(x, Activation::gelu_tanh); }
Var silu(const Var& x) { return activate(x, Activation::silu); }
Var tanh(const Var& x) { return activate(x, Activation::tanh); }
Var sigmoid(const Var& x) { return activate(x, Activation::sigmoid); }

Var glu(const Var& x, Activation activation) {
  check(x.rank() >= 1 && x.size(-1) % 2 == 0, "glu", "x has shape ", x.shape(),
        "; its last size must be even, for two halves");
  Dims shape = x.shape();
  shape[-1] /= 2;
  const Var y = x.tape().output(shape, {x});
  glu_forward(activation, half(x.rows(), 0), half(x.rows(), 1), y.output_rows());
  return x.tape().record<glu_op_backward>(y, GluSaved{x, {}, activation});
}

Var glu(const Var& gate, const Var& x, Activation activation) {
  check(gate.shape() == x.shape(), "glu", "the gate has shape ", gate.shape(), ", but x has ", x.shape());
  const Var y = x.tape().output(x.shape(), {gate, x});
  glu_forward(activation, gate.rows(), x.rows(), y.output_rows());
  return x.tape().record<glu_op_backward>(y, GluSaved{gate, x, activation});
}

}  // namespace heed
