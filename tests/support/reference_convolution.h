// Convolution and pooling in plain loops, on any scalar type: the oracle of the vector code. Tensors are all their
// values in row-major order.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "heed/ops/convolution.h"
#include "heed/ops/pooling.h"

namespace heed::test {

// x [B, T, C], weight [outputs, C / groups, kernel], bias [outputs] or empty → y [B, positions, outputs]
template <class T>
std::vector<T> reference_conv1d(const std::vector<T>& x, const Shape<3>& x_shape, const std::vector<T>& weight,
                                const Shape<3>& weight_shape, const std::vector<T>& bias,
                                const Conv1dGeometry& geometry) {
  const auto [items, length, channels] = x_shape;
  const auto [outputs, group_channels, kernel] = weight_shape;
  const int64_t positions =
      (length + 2 * geometry.padding - geometry.dilation * (kernel - 1) - 1) / geometry.stride + 1;
  const int64_t group_outputs = outputs / geometry.groups;
  std::vector<T> y;
  for (int64_t b = 0; b < items; ++b) {
    for (int64_t p = 0; p < positions; ++p) {
      for (int64_t o = 0; o < outputs; ++o) {
        T sum = bias.empty() ? T(0) : bias[static_cast<size_t>(o)];
        for (int64_t j = 0; j < kernel; ++j) {
          const int64_t t = p * geometry.stride + j * geometry.dilation - geometry.padding;
          if (t < 0 || t >= length) continue;
          for (int64_t c = 0; c < group_channels; ++c) {
            const int64_t channel = o / group_outputs * group_channels + c;
            sum += x[static_cast<size_t>((b * length + t) * channels + channel)] *
                   weight[static_cast<size_t>((o * group_channels + c) * kernel + j)];
          }
        }
        y.push_back(sum);
      }
    }
  }
  return y;
}

enum class Pool { max, mean };

// x [N, H, W, C] → y [N, positions, positions, C]; `place` receives h · W + w of each maximum.
template <class T>
std::vector<T> reference_pool(Pool pool, const std::vector<T>& x, const Shape<4>& shape, const PoolWindow& window,
                              std::vector<int32_t>* place = nullptr) {
  const auto positions = [&](size_t d) {
    return (shape[d + 1] + 2 * window.padding[d] - window.kernel[d]) / window.stride[d] + 1;
  };
  std::vector<T> y;
  const Shape<4> outputs{shape[0], positions(0), positions(1), shape[3]};
  for (int64_t at = 0; at < element_count(outputs); ++at) {
    const int64_t c = at % outputs[3];
    const int64_t j = at / outputs[3] % outputs[2];
    const int64_t i = at / outputs[3] / outputs[2] % outputs[1];
    const int64_t n = at / outputs[3] / outputs[2] / outputs[1];
    T sum = T(0);
    T best = T(0);
    int64_t first = -1;
    for (int64_t tap = 0; tap < window.kernel[0] * window.kernel[1]; ++tap) {
      const int64_t h = i * window.stride[0] - window.padding[0] + tap / window.kernel[1];
      const int64_t w = j * window.stride[1] - window.padding[1] + tap % window.kernel[1];
      if (h < 0 || h >= shape[1] || w < 0 || w >= shape[2]) continue;
      const T value = x[static_cast<size_t>(((n * shape[1] + h) * shape[2] + w) * shape[3] + c)];
      sum += value;
      if (first >= 0 && (std::isnan(best) || !(value > best || std::isnan(value)))) continue;
      best = value;
      first = h * shape[2] + w;
    }
    y.push_back(pool == Pool::max ? best : sum / static_cast<T>(window.kernel[0] * window.kernel[1]));
    if (place != nullptr) place->push_back(static_cast<int32_t>(first));
  }
  return y;
}

// x [B, T, C] → y [B, C] over the first lengths[b] rows; 0 without rows.
template <class T>
std::vector<T> reference_global_pool(Pool pool, const std::vector<T>& x, const Shape<3>& shape,
                                     const std::vector<int64_t>& lengths) {
  std::vector<T> y;
  for (int64_t b = 0; b < shape[0]; ++b) {
    for (int64_t c = 0; c < shape[2]; ++c) {
      T result = T(0);
      const int64_t length = lengths[static_cast<size_t>(b)];
      for (int64_t t = 0; t < length; ++t) {
        const T value = x[static_cast<size_t>((b * shape[1] + t) * shape[2] + c)];
        if (pool == Pool::mean) {
          result += value / static_cast<T>(length);
        } else if (t == 0 || value > result) {
          result = value;
        }
      }
      y.push_back(result);
    }
  }
  return y;
}

}  // namespace heed::test
