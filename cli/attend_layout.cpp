#include "cli/attend_layout.h"

#include "cli/command_line.h"
#include "heed/nn/multihead_weights.h"

namespace heed::cli {
namespace {

TensorLayout::Kind kind_of(int rank, bool has_heads, const std::string& layout, const std::string& what) {
  using Kind = TensorLayout::Kind;
  if (rank == 4 && layout.empty()) {
    throw CommandError("usage.layout", what + " has rank 4, which may be [B,T,H,D] or [B,H,T,D]",
                       "say which: --layout bthd or --layout bhtd");
  }
  if (rank == 4 && has_heads) {
    throw CommandError("usage.heads", "--heads is given, but " + what + " has rank 4 and heads of its own",
                       "leave --heads out");
  }
  if (rank == 4) return layout == "bthd" ? Kind::bthd : Kind::bhtd;
  if (!layout.empty()) {
    throw CommandError("usage.layout",
                       "--layout is for tensors of rank 4; " + what + " has rank " + std::to_string(rank),
                       "leave it out: rank 2 is [T,D], rank 3 is [H,T,D], or with --heads [B,T,H*D]");
  }
  if (rank == 2) return has_heads ? Kind::flat2 : Kind::td;
  if (rank == 3) return has_heads ? Kind::flat3 : Kind::htd;
  throw CommandError("data.rank", what + " has rank " + std::to_string(rank) + "; attention takes rank 2, 3 or 4",
                     "rank 2 is [T,D], rank 3 is [H,T,D], or with --heads [B,T,H*D]", kBadData, what);
}

}  // namespace

void check_heads_divide(int64_t width, int64_t heads, const std::string& what) {
  if (heads > 0 && width % heads == 0) return;
  const io::FileProblem problem = undivided_heads(width, heads);
  throw CommandError("data.heads", problem.what, problem.hint, kBadData, what);
}

TensorLayout::TensorLayout(int rank, bool has_heads, const std::string& layout, const std::string& what)
    : kind_(kind_of(rank, has_heads, layout, what)) {}

template <class T>
View<T, 4> TensorLayout::ordered(T* data, const Shape<4>& sizes) const {
  const auto [b, t, h, d] = sizes;
  switch (kind_) {
    case Kind::htd:
    case Kind::bhtd:
      return View<T, 4>(data, {b, h, t, d}).permuted({0, 2, 1, 3});
    default:
      return {data, sizes};
  }
}

Tensor TensorLayout::to_bthd(const Tensor& tensor, int64_t heads, const std::string& what) const {
  const std::vector<int64_t>& s = tensor.shape();
  if (is_flat()) check_heads_divide(s.back(), heads, what);
  Shape<4> sizes{};
  switch (kind_) {
    case Kind::td:
      sizes = {1, s[0], 1, s[1]};
      break;
    case Kind::htd:
      sizes = {1, s[1], s[0], s[2]};
      break;
    case Kind::flat2:
      sizes = {1, s[0], heads, s[1] / heads};
      break;
    case Kind::flat3:
      sizes = {s[0], s[1], heads, s[2] / heads};
      break;
    case Kind::bthd:
      sizes = {s[0], s[1], s[2], s[3]};
      break;
    case Kind::bhtd:
      sizes = {s[0], s[2], s[1], s[3]};
      break;
  }
  const View<const float, 4> from = ordered(tensor.values().data(), sizes);
  Tensor made({sizes.begin(), sizes.end()});
  auto to = made.values().begin();
  for (int64_t b = 0; b < sizes[0]; ++b) {
    for (int64_t t = 0; t < sizes[1]; ++t) {
      for (int64_t h = 0; h < sizes[2]; ++h)
        to = std::copy_n(from.data() + b * from.stride(0) + t * from.stride(1) + h * from.stride(2), sizes[3], to);
    }
  }
  return made;
}

Tensor TensorLayout::from_bthd(const Tensor& tensor) const {
  const View<const float, 4> from = tensor.view<4>();
  const auto [b_count, t_count, h_count, d_count] = from.shape();
  std::vector<int64_t> shape;
  switch (kind_) {
    case Kind::td:
      shape = {t_count, d_count};
      break;
    case Kind::htd:
      shape = {h_count, t_count, d_count};
      break;
    case Kind::flat2:
      shape = {t_count, h_count * d_count};
      break;
    case Kind::flat3:
      shape = {b_count, t_count, h_count * d_count};
      break;
    case Kind::bthd:
      shape = {b_count, t_count, h_count, d_count};
      break;
    case Kind::bhtd:
      shape = {b_count, h_count, t_count, d_count};
      break;
  }
  Tensor made(std::move(shape));
  const View<float, 4> to = ordered(made.values().data(), from.shape());
  for (int64_t b = 0; b < b_count; ++b) {
    for (int64_t t = 0; t < t_count; ++t) {
      for (int64_t h = 0; h < h_count; ++h) {
        for (int64_t d = 0; d < d_count; ++d) to(b, t, h, d) = from(b, t, h, d);
      }
    }
  }
  return made;
}

std::string TensorLayout::text() const {
  switch (kind_) {
    case Kind::td:
      return "[T, D]";
    case Kind::htd:
      return "[H, T, D]";
    case Kind::flat2:
      return "[T, H*D]";
    case Kind::flat3:
      return "[B, T, H*D]";
    case Kind::bthd:
      return "[B, T, H, D]";
    default:
      return "[B, H, T, D]";
  }
}

}  // namespace heed::cli
