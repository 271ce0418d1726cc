// The meaning of a step's dimensions.
#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace heed {

// Letters as in ARCHITECTURE.md. A product means heads side by side: H·Dk columns are H heads of width Dk.
enum class Dim { b, t_q, t_k, h, h_kv, d_k, d_v, c, c_context, c_out, h_d_k, h_d_v, h_kv_d_k, h_kv_d_v };

constexpr std::string_view dim_name(Dim dim) {
  constexpr std::array<std::string_view, 14> kNames = {"B", "Tq", "Tk",    "H",    "Hkv",  "Dk",     "Dv",
                                                       "C", "C'", "C_out", "H·Dk", "H·Dv", "Hkv·Dk", "Hkv·Dv"};
  return kNames[static_cast<size_t>(dim)];
}

// True for the dimensions of query heads and of key/value heads.
constexpr bool counts_heads(Dim dim) { return dim == Dim::h || dim == Dim::h_kv; }
// True for the dimensions of queries and of keys.
constexpr bool counts_tokens(Dim dim) { return dim == Dim::t_q || dim == Dim::t_k; }

}  // namespace heed
