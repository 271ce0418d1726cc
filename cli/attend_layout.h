// How a user's tensors of queries, keys and values lie: rank 2 [T,D], rank 3 [H,T,D], rank 4 as --layout says; with
// --heads the last dimension is H·D, of [T,H·D] or [B,T,H·D].
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "heed/core/tensor.h"

namespace heed::cli {

class TensorLayout {
 public:
  enum class Kind { td, htd, bthd, bhtd, flat2, flat3 };

  // Of a tensor of this rank; `what` names the file in errors.
  TensorLayout(int rank, bool has_heads, const std::string& layout, const std::string& what);

  // The tensor as [B, T, H, D]. `heads` splits the width of flat ones. A CommandError where it does not divide it.
  Tensor to_bthd(const Tensor& tensor, int64_t heads, const std::string& what) const;

  // The way back.
  Tensor from_bthd(const Tensor& tensor) const;

  int rank() const { return kind_ == Kind::td || kind_ == Kind::flat2 ? 2 : is_flat() || kind_ == Kind::htd ? 3 : 4; }
  bool is_flat() const { return kind_ == Kind::flat2 || kind_ == Kind::flat3; }
  std::string text() const;  // "[T, D]"

 private:
  // A tensor of this layout, of these sizes B, T, H, D, in that order.
  template <class T>
  View<T, 4> ordered(T* data, const Shape<4>& sizes) const;

  Kind kind_ = Kind::td;
};

// Refuses widths that heads do not divide: "heads 5 does not divide the width 32 (32/5 = 6.4)", with those that do.
void check_heads_divide(int64_t width, int64_t heads, const std::string& what);

}  // namespace heed::cli
