#include "heed/ops/rotary.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "heed/core/error.h"
#include "heed/core/extent.h"
#include "heed/ops/rotary_kernel.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr int64_t kMostPosition = int64_t{1} << 40;
constexpr int64_t kMostTableWidth = int64_t{1} << 20;
// Floats that one task moves: some microseconds of work.
constexpr int64_t kTaskFloats = 16384;

void check_tensor(const char* function, const char* name, View<const float, 4> tensor) {
  check_view(function, name, tensor);
  check(tensor.size(3) <= 1 || tensor.stride(3) == 1, function, name, " has strides ", tensor.strides(),
        "; its last dimension must be contiguous (stride 1): copy it first");
}

// Rejects positions outside the table.
void check_held(const char* function, const char* name, const RotaryOptions& table, int64_t least, int64_t most) {
  check(least >= table.first && most - table.first < table.positions, function, "the tokens of ", name,
        " stand at positions ", least, " … ", most, ", but the table holds ", table.positions, " from ", table.first,
        " on; build it for the positions that are needed");
}

void check_positions(const char* function, const char* name, const RotaryOptions& table, const RotaryPositions& where,
                     int64_t batch, int64_t tokens) {
  const auto count = static_cast<int64_t>(where.offsets.size());
  const bool given = where.positions.data() != nullptr;
  check((where.offset != 0 ? 1 : 0) + (count > 0 ? 1 : 0) + (given ? 1 : 0) <= 1, function,
        "positions are given in more than one way; give an offset, offsets by item, or positions");
  check(count == 0 || count == batch, function, "there are ", count, " offsets for a batch of ", batch,
        "; give one for each item");
  if (given) {
    const Shape<2>& shape = where.positions.shape();
    check((shape[0] == 1 || shape[0] == batch) && shape[1] == tokens, function, "positions have shape ", shape,
          ", expected [B or 1, T] with B = ", batch, " and T = ", tokens);
    check_extent(function, "positions", where.positions);
  }
  if (batch == 0 || tokens == 0) return;
  if (given) {
    for (int64_t b = 0; b < where.positions.size(0); ++b) {
      for (int64_t t = 0; t < tokens; ++t) {
        check_held(function, name, table, where.positions(b, t), where.positions(b, t));
      }
    }
    return;
  }
  const auto check_offset = [&](int64_t offset) {
    check(offset >= -kMostPosition && offset <= kMostPosition, function, "an offset is ", offset,
          "; it must be within ±", kMostPosition);
    check_held(function, name, table, offset, offset + tokens - 1);
  };
  if (count == 0) check_offset(where.offset);
  for (const int64_t offset : where.offsets) check_offset(offset);
}

int64_t position_of(const RotaryPositions& where, int64_t b, int64_t t) {
  if (where.positions.data() != nullptr) return where.positions(where.positions.size(0) == 1 ? 0 : b, t);
  return t + (where.offsets.empty() ? where.offset : where.offsets[static_cast<size_t>(b)]);
}

// One call in either direction, with the names of its tensors.
struct RotaryCall {
  const char* function;
  const char* from_name;
  const char* to_name;
  View<const float, 4> from;  // [B, T, H, D]
  View<float, 4> to;
  bool backward;
};

void check_call(const RotaryCall& call, const RotaryTable& table, const RotaryPositions& where) {
  const auto& [function, from_name, to_name, from, to, backward] = call;
  check_tensor(function, from_name, from);
  check_tensor(function, to_name, to);
  check(from.shape() == to.shape(), function, to_name, " has shape ", to.shape(), ", expected that of ", from_name,
        ", ", from.shape());
  check(from.data() != to.data() || from.count() == 0 || from.strides() == to.strides(), function, to_name,
        " begins where ", from_name, " does but has strides ", to.strides(), " instead of ", from.strides(),
        "; give the same view, or memory of its own");
  check_rotary(function, from_name, from.shape(), table, where);
}

void rotate(const RotaryCall& call, const RotaryTable& table, const RotaryPositions& where) {
  check_call(call, table, where);
  const View<const float, 4>& from = call.from;
  const View<float, 4>& to = call.to;
  if (from.count() == 0) return;

  const int64_t tokens = from.size(1);
  const int64_t step = std::clamp<int64_t>(kTaskFloats / (from.size(2) * from.size(3)), 1, tokens);
  const int64_t tasks_of_item = divide_up(tokens, step);
  dispatch([&]<Isa isa>() {
    parallel_for(from.size(0) * tasks_of_item, [&](int64_t task, int) {
      const int64_t b = task / tasks_of_item;
      const int64_t begin = task % tasks_of_item * step;
      RotaryToken token;
      token.x_step = from.stride(2);
      token.out_step = to.stride(2);
      token.heads = from.size(2);
      token.width = from.size(3);
      token.pairs = table.pairs();
      token.pairing = table.options().pairing;
      token.backward = call.backward;
      for (int64_t t = begin; t < std::min(begin + step, tokens); ++t) {
        token.x = &from(b, t, 0, 0);
        token.out = &to(b, t, 0, 0);
        token.table = table.row(position_of(where, b, t));
        rotary_kernel<isa>(token);
      }
    });
  });
}

}  // namespace

RotaryTable::RotaryTable(const RotaryOptions& options) : options_(options) {
  constexpr const char* kName = "RotaryTable";
  const int64_t width = options.width;
  const int64_t positions = options.positions;
  check(width >= 2 && width % 2 == 0 && width <= kMostTableWidth, kName, "width is ", width,
        "; the rotated part is made of pairs, so it must be even, at least 2 and at most ", kMostTableWidth);
  check(std::isfinite(options.base) && options.base > 0.0, kName, "base is ", options.base,
        "; it must be finite and above 0");
  check(positions >= 0 && positions <= kMostPosition, kName, "positions = ", positions, "; it must be in 0 … ",
        kMostPosition);
  check(options.first >= -kMostPosition && options.first <= kMostPosition, kName, "first = ", options.first,
        "; it must be within ±", kMostPosition);
  check_sizes(kName, "the table [positions, width]", Shape<2>{positions, width});
  std::vector<double> frequencies(static_cast<size_t>(width / 2));
  for (size_t i = 0; i < frequencies.size(); ++i) {
    frequencies[i] = std::pow(options.base, -2.0 * static_cast<double>(i) / static_cast<double>(width));
  }
  values_ = Tensor({positions, width});
  constexpr int64_t kStep = 64;
  parallel_for(divide_up(positions, kStep), [&](int64_t task, int) {
    for (int64_t p = task * kStep; p < std::min((task + 1) * kStep, positions); ++p) {
      float* cosines = values_.values().data() + p * width;
      float* sines = cosines + width / 2;
      for (size_t i = 0; i < frequencies.size(); ++i) {
        const double angle = static_cast<double>(options_.first + p) * frequencies[i];
        cosines[i] = static_cast<float>(std::cos(angle));
        sines[i] = static_cast<float>(std::sin(angle));
      }
    }
  });
}

void check_rotary(const char* function, const char* name, const Shape<4>& shape, const RotaryTable& table,
                  const RotaryPositions& positions) {
  check_sizes(function, name, shape);
  check(table.options().width <= shape[3], function, "the table rotates ", table.options().width, " elements of ",
        shape[3], " in ", name, " ", shape);
  check_positions(function, name, table.options(), positions, shape[0], shape[1]);
}

void rotary_forward(View<const float, 4> x, const RotaryTable& table, const RotaryPositions& positions,
                    View<float, 4> out) {
  rotate({"rotary_forward", "x", "out", x, out, false}, table, positions);
}

void rotary_backward(View<const float, 4> d_out, const RotaryTable& table, const RotaryPositions& positions,
                     View<float, 4> d_x) {
  rotate({"rotary_backward", "d_out", "d_x", d_out, d_x, true}, table, positions);
}

}  // namespace heed
