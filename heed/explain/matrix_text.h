// Matrices as text: small ones in full, large ones by their corners.
#pragma once

#include <string>
#include <vector>

#include "heed/core/tensor.h"
#include "heed/explain/text_style.h"

namespace heed::explain {

struct MatrixText {
  View<const float, 2> values;
  std::vector<std::string> row_labels{};     // one per row; empty: row numbers from first_row on
  std::vector<std::string> column_labels{};  // one per column; empty: column numbers, or none
  int64_t first_row = 0;
  bool number_columns = false;
  bool sums = false;               // a column with the sum of each row
  View<const float, 2> visible{};  // 0 where a key is hidden; null: nothing is
  int64_t corner_rows = 4;         // rows shown if there are more than 8: the first ones and the last
};

// Lines that end with '\n'.
std::string matrix_text(const MatrixText& matrix, const TextStyle& style);

}  // namespace heed::explain
