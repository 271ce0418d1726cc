// Self-attention of two tokens of width 3 with one head: every step, its formula, its shape and its numbers. First in
// plain code, as one would do it by hand; then by heed::attention_forward.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "heed/attention/attention.h"
#include "heed/core/tensor.h"

namespace {

using Row = std::vector<double>;
using Matrix = std::vector<Row>;

// Row vectors times matrices: q = x W_Q.
const Matrix kX = {{-0.1, 0.1, 0.3}, {0.4, -1.1, -0.3}};
const Matrix kWq = {{-0.35, 0.51, 0.50}, {0.36, -0.47, -0.29}, {-0.51, -0.14, -0.56}};
const Matrix kWk = {{-0.49, -0.68, 0.18}, {-0.44, -0.46, 0.18}, {0.07, -0.10, 0.44}};
const Matrix kWv = {{-0.41, 0.39, -0.65}, {-0.40, -0.07, -0.34}, {-0.55, -0.13, -0.29}};
const Matrix kWo = {{-0.36, -0.08, 0.32}, {0.27, 0.05, 0.15}, {-0.05, -0.28, 0.05}};

// [n, m] × [m, p] → [n, p]
Matrix multiply(const Matrix& a, const Matrix& b) {
  Matrix product(a.size(), Row(b[0].size(), 0.0));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < b[0].size(); ++j) {
      for (size_t k = 0; k < b.size(); ++k) product[i][j] += a[i][k] * b[k][j];
    }
  }
  return product;
}

Matrix transpose(const Matrix& a) {
  Matrix turned(a[0].size(), Row(a.size()));
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) turned[j][i] = a[i][j];
  }
  return turned;
}

Matrix scale_by(Matrix a, double factor) {
  for (Row& row : a) {
    for (double& value : row) value *= factor;
  }
  return a;
}

// exp(value - largest of the row) / sum of the row: positive numbers that add up to 1.
Matrix softmax_rows(Matrix a) {
  for (Row& row : a) {
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0.0;
    for (double& value : row) sum += value = std::exp(value - largest);
    for (double& value : row) value /= sum;
  }
  return a;
}

void print(const std::string& step, const std::string& meaning, const Matrix& a) {
  std::printf("%s  [%zu, %zu]  %s\n", step.c_str(), a.size(), a[0].size(), meaning.c_str());
  for (const Row& row : a) {
    for (const double value : row) std::printf(" %9.4f", value);
    std::printf("\n");
  }
  std::printf("\n");
}

// As heed takes it: one item of the batch, one head, [1, T, 1, D].
heed::Tensor to_tensor(const Matrix& a) {
  heed::Tensor tensor({1, static_cast<int64_t>(a.size()), 1, static_cast<int64_t>(a[0].size())});
  auto value = tensor.values().begin();
  for (const Row& row : a) {
    for (const double entry : row) *value++ = static_cast<float>(entry);
  }
  return tensor;
}

Matrix attend_with_heed(const Matrix& q, const Matrix& k, const Matrix& v) {
  const heed::Tensor q4 = to_tensor(q);
  const heed::Tensor k4 = to_tensor(k);
  const heed::Tensor v4 = to_tensor(v);
  heed::Tensor heads4({1, static_cast<int64_t>(q.size()), 1, static_cast<int64_t>(v[0].size())});
  heed::attention_forward({q4.view<4>(), k4.view<4>(), v4.view<4>()}, {}, heads4.view<4>());
  Matrix heads = Matrix(q.size(), Row(v[0].size()));
  auto value = heads4.values().begin();
  for (Row& row : heads) {
    for (double& entry : row) entry = *value++;
  }
  return heads;
}

double largest_difference(const Matrix& a, const Matrix& b) {
  double largest = 0.0;
  for (size_t i = 0; i < a.size(); ++i) {
    for (size_t j = 0; j < a[i].size(); ++j) largest = std::max(largest, std::abs(a[i][j] - b[i][j]));
  }
  return largest;
}

}  // namespace

int main() {
  const Matrix q = multiply(kX, kWq);
  const Matrix k = multiply(kX, kWk);
  const Matrix v = multiply(kX, kWv);
  const Matrix scores = multiply(q, transpose(k));
  const Matrix scaled = scale_by(scores, 1.0 / std::sqrt(3.0));
  const Matrix weights = softmax_rows(scaled);
  const Matrix heads = multiply(weights, v);
  const Matrix out = multiply(heads, kWo);

  std::printf("Self-attention: two tokens of width 3, one head.\n\n");
  print("x", "the input, a row for each token", kX);
  print("q = x W_Q", "queries: what each token looks for", q);
  print("k = x W_K", "keys: what each token offers to be found by", k);
  print("v = x W_V", "values: what each token has to say", v);
  print("scores = q k^T", "row i, column j: how well query i fits key j", scores);
  print("scaled = scores / sqrt(3)", "so that wide keys do not make the softmax too sharp", scaled);
  print("weights = softmax(scaled)", "each row is positive and adds up to 1", weights);
  print("heads = weights v", "each token's mixture of all values", heads);
  print("out = heads W_O", "back to the width of the model", out);

  const Matrix heads_by_heed = attend_with_heed(q, k, v);
  const double difference =
      std::max(largest_difference(heads, heads_by_heed), largest_difference(out, multiply(heads_by_heed, kWo)));
  std::printf("From q, k, v to heads in one call, in f32:\n\n");
  print("heads by heed::attention_forward", "scores, softmax and mixture without a [2, 2] matrix", heads_by_heed);
  std::printf("largest difference to the steps above: %.1e\n", difference);
  return difference < 1e-6 ? EXIT_SUCCESS : EXIT_FAILURE;
}
