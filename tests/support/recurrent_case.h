// A random recurrent layer: runs it on views, and computes the same in double by the plain reference.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "heed/ops/recurrent.h"

namespace heed::test {

struct RecurrentSizes {
  int64_t batch, tokens, inputs, hidden;
};

struct RecurrentCaseOptions {
  RecurrentKind kind = RecurrentKind::lstm;
  int64_t directions = 1;
  bool bias = true;
  bool states = true;              // before the first step
  std::vector<int64_t> lengths{};  // empty: all
  bool add = false;                // input gradients are added to what is there
  bool padded_x = false;           // a gap between the items of x
};

// An array and its gradient.
struct RecurrentTensor {
  std::vector<float> values{}, gradient{};
};

class RecurrentCase {
 public:
  static constexpr float kBefore = 2.0F;   // what is in gradients before
  static constexpr float kGuard = -77.0F;  // beside the columns of y

  RecurrentCase(const RecurrentSizes& sizes, RecurrentCaseOptions given);

  bool is_lstm() const { return options.kind == RecurrentKind::lstm; }
  int64_t length(int64_t item) const {
    return options.lengths.empty() ? s.tokens : options.lengths[static_cast<size_t>(item)];
  }

  void forward() { recurrent_forward(inputs(), {directions(), count()}, saved, &scratch); }
  void backward() {
    RecurrentGradients gradients[2];
    for (int64_t d = 0; d < options.directions; ++d) gradients[d] = gradients_of(d);
    recurrent_backward(inputs(), {directions(), count()}, saved, {gradients, count()},
                       {View<float, 3>(x.gradient.data(), x_shape(), x_strides()), options.add}, &scratch);
  }

  RecurrentInputs inputs() const {
    return {options.kind, View<const float, 3>(x.values.data(), x_shape(), x_strides()), options.lengths};
  }
  const RecurrentDirection* directions();

  // The loss of which d_y, d_hidden and d_cell are the gradients, in double, from values rounded as they are. With
  // `expected` also y and the last states, in the order of the loops.
  double reference_loss(std::vector<double>* expected = nullptr) const;
  // The same from what forward gave.
  std::vector<double> results() const;

  // Everything that has a gradient, by name.
  std::vector<std::pair<std::string, RecurrentTensor*>> tensors();

  size_t y_at(int64_t d, int64_t item, int64_t t) const {
    return static_cast<size_t>((item * s.tokens + t) * y_width + d * s.hidden);
  }

  struct Direction {
    RecurrentTensor weight_ih, weight_hh, bias_ih, bias_hh, hidden, cell;
    std::vector<float> d_hidden, d_cell;        // gradients that arrive
    std::vector<float> last_hidden, last_cell;  // results
  };

  RecurrentSizes s;
  RecurrentCaseOptions options;
  int64_t item_stride = 0, y_width = 0;
  RecurrentTensor x;
  Direction direction[2];
  std::vector<float> y, d_y;
  Arena memory, scratch;
  RecurrentSaved saved{memory};

 private:
  RecurrentTensor draw(int64_t count, float deviation);
  template <class T>
  static T* data_or_null(std::vector<T>& values) {
    return values.empty() ? nullptr : values.data();
  }
  Shape<2> states() const { return {s.batch, s.hidden}; }
  Shape<3> x_shape() const { return {s.batch, s.tokens, s.inputs}; }
  Shape<3> x_strides() const { return {item_stride, s.inputs, 1}; }
  size_t count() const { return static_cast<size_t>(options.directions); }

  RecurrentGradients gradients_of(int64_t d);

  void append(std::vector<double>& to, const float* row) const { to.insert(to.end(), row, row + s.hidden); }

  double item_loss(int64_t d, int64_t item, std::vector<double>* expected) const;

  uint64_t seed_ = 0;
  RecurrentDirection views_[2];
};

}  // namespace heed::test
