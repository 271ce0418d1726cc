#include "heed/explain/matrix_text.h"

#include <algorithm>

namespace heed::explain {
namespace {

constexpr int64_t kMostRows = 8;  // more are shown by their corners
constexpr int kMostLabel = 14;    // columns of a label
constexpr int kIndent = 4;
constexpr int kGap = 2;
constexpr int64_t kGapIndex = -1;  // marks the omitted part

// All of 0 … count-1, or the first of them, a gap and the last: `few` in all.
std::vector<int64_t> corners(int64_t count, bool all, int64_t few) {
  std::vector<int64_t> chosen;
  for (int64_t i = 0; i < (all ? count : few - 1); ++i) chosen.push_back(i);
  if (all) return chosen;
  chosen.push_back(kGapIndex);
  chosen.push_back(count - 1);
  return chosen;
}

// The columns that decide how wide a column is: those that may be shown.
std::vector<int64_t> measured(int64_t count) { return corners(count, count <= 64, 64); }

class Layout {
 public:
  Layout(const MatrixText& matrix, const TextStyle& style) : matrix_(matrix), style_(style) {
    rows_ = corners(matrix.values.size(0), matrix.values.size(0) <= kMostRows, matrix.corner_rows);
    for (const int64_t i : rows_) label_width_ = std::max(label_width_, columns_of(row_label(i)));
    const int64_t columns = matrix.values.size(1);
    for (const int64_t i : rows_) {
      for (const int64_t j : measured(columns)) cell_width_ = std::max(cell_width_, columns_of(cell(i, j)));
    }
    const bool headed = matrix.number_columns || !matrix.column_labels.empty();
    for (const int64_t j : measured(headed ? columns : 0)) {
      cell_width_ = std::max(cell_width_, columns_of(column_label(j)));
    }
    const int64_t room = style.width - kIndent - label_width_ - (matrix.sums ? kGap + 1 + cell_width_ : 0);
    const auto fit = [&](int64_t place) { return std::max<int64_t>(place / (cell_width_ + kGap), 1); };
    columns_ = corners(columns, columns <= fit(room), fit(room - kGap - columns_of(left_out(style))));
    headed_ = headed;
  }

  std::string text() const {
    std::string result;
    if (headed_ || matrix_.sums) result += head();
    for (const int64_t i : rows_) result += row(i);
    return result;
  }

 private:
  std::string row_label(int64_t i) const {
    if (i == kGapIndex) return left_out(style_);
    if (matrix_.row_labels.empty()) return std::to_string(matrix_.first_row + i);
    return shortened(matrix_.row_labels[static_cast<size_t>(i)], kMostLabel, style_);
  }
  std::string column_label(int64_t j) const {
    if (j == kGapIndex) return left_out(style_);
    if (matrix_.column_labels.empty()) return headed_ || matrix_.number_columns ? std::to_string(j) : "";
    return shortened(matrix_.column_labels[static_cast<size_t>(j)], kMostLabel, style_);
  }
  std::string cell(int64_t i, int64_t j) const {
    if (i == kGapIndex || j == kGapIndex) return left_out(style_);
    return number_text(matrix_.values(i, j), style_);
  }

  // The mark of what is left out needs no more than its own place.
  int width_of(int64_t j) const { return j == kGapIndex ? columns_of(left_out(style_)) : cell_width_; }

  std::string head() const {
    std::string line(static_cast<size_t>(kIndent + label_width_), ' ');
    for (const int64_t j : columns_) line += std::string(kGap, ' ') + padded_left(column_label(j), width_of(j));
    if (matrix_.sums) line += std::string(kGap + 1, ' ') + padded_left("sum", cell_width_);
    return painted(line, Paint::dim, style_) + "\n";
  }

  std::string row(int64_t i) const {
    std::string line(kIndent, ' ');
    line += padded_right(row_label(i), label_width_);
    for (const int64_t j : columns_) {
      const bool hidden = i >= 0 && j >= 0 && matrix_.visible.data() != nullptr && matrix_.visible(i, j) == 0.0F;
      const std::string text = padded_left(cell(i, j), width_of(j));
      line += std::string(kGap, ' ') + (hidden ? painted(text, Paint::dim, style_) : text);
    }
    if (matrix_.sums && i != kGapIndex) {
      double sum = 0.0;
      for (int64_t j = 0; j < matrix_.values.size(1); ++j) sum += static_cast<double>(matrix_.values(i, j));
      line += std::string(kGap + 1, ' ') + padded_left(number_text(static_cast<float>(sum), style_), cell_width_);
    }
    return line + "\n";
  }

  const MatrixText& matrix_;
  const TextStyle& style_;
  std::vector<int64_t> rows_, columns_;
  int label_width_ = 0;
  int cell_width_ = 1;
  bool headed_ = false;
};

}  // namespace

std::string matrix_text(const MatrixText& matrix, const TextStyle& style) { return Layout(matrix, style).text(); }

}  // namespace heed::explain
