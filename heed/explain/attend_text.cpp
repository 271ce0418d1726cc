#include "heed/explain/attend_text.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

#include "heed/explain/matrix_text.h"
#include "heed/explain/number_text.h"

namespace heed::explain {
namespace {

constexpr int64_t kMostMatrices = 4;  // of a step; more are shown by the first and the last

// "1.2e-07"
std::string small(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.1e", value);
  return value == 0.0 ? "0" : text.data();
}

}  // namespace

std::string nonfinite_text(const AttendChecks& checks) {
  const bool of_out = checks.rows_nonfinite == 0;
  const int64_t count = of_out ? checks.out_rows_nonfinite.value_or(0) : checks.rows_nonfinite;
  if (count == 0) return "";
  const std::string rows =
      of_out ? (count == 1 ? " row of out" : " rows of out") : " of " + std::to_string(checks.rows_shown) + " rows";
  return std::to_string(count) + rows + (count == 1 ? " is" : " are") +
         " not finite (NaN or ∞): " + (count == 1 ? "" : "the first is ") + checks.first_row_nonfinite;
}

namespace {

class Renderer {
 public:
  Renderer(const AttendCase& given, const AttendRequest& request, const Walkthrough& all, const TextStyle& style)
      : given_(given), request_(request), all_(all), style_(style) {}

  std::string text() {
    put_title();
    for (const Recording& step : all_.steps) put_step(step);
    for (const Comparison& each : all_.comparisons) put_comparison(each);
    put_gradients();
    put_top_keys();
    put_checks();
    return std::move(text_);
  }

 private:
  void put_wrapped(const std::string& text, const std::string& first, int indent) {
    text_ += wrapped(text, first, indent, style_);
  }

  void put_title() {
    const AttendSizes& s = all_.sizes;
    std::string title = wrapped(given_.title, "", 2, style_);
    title.pop_back();
    text_ += painted(title, Paint::bold, style_) + "\n";
    std::vector<std::string> parts;
    if (s.batch != 1) parts.push_back(counted(s.batch, "item", "items"));
    parts.push_back(counted(s.t_q, "query", "queries"));
    parts.push_back(counted(s.t_k, "key", "keys"));
    parts.push_back(counted(s.heads, "head", "heads"));
    if (s.kv_heads != s.heads) parts.push_back(counted(s.kv_heads, "key/value head", "key/value heads"));
    parts.push_back("d_k " + std::to_string(s.d_k));
    parts.push_back("d_v " + std::to_string(s.d_v));
    parts.push_back("scale " + shortest(scale_of(given_)) + (given_.scale ? "" : " = 1/√" + std::to_string(s.d_k)));
    parts.push_back("mask " + all_.plan.mask);
    if (given_.sigmoid) parts.emplace_back("sigmoid");
    for (const std::string& option : option_names(given_)) parts.push_back(option);
    put_wrapped(joined(parts, " · "), "  ", 2);
    for (const std::string& note : given_.notes) put_wrapped(note, "  * ", 4);
    shown_number_ = -1;
  }

  // "[B, Tq, H, Dk] = [1, 2, 1, 4]", and which part of it is shown.
  std::string shape_text(const Recording& step) const {
    std::vector<std::string> dims;
    for (const Dim dim : step.dims) dims.emplace_back(dim_name(dim));
    std::string text = "[" + joined(dims, ", ") + "] = " + to_text(step.whole);
    for (size_t i = 0; i < step.dims.size(); ++i) {
      const int64_t first = step.first[i], count = step.values.shape()[i];
      if (count == step.whole[i]) continue;
      text += counts_heads(step.dims[i]) ? ", head " + std::to_string(first)
                                         : ", rows " + std::to_string(first) + ":" + std::to_string(first + count);
    }
    return text;
  }

  void put_heading(int number, const std::string& formula, const std::string& shape) {
    std::string heading = number == shown_number_ ? " " : std::to_string(number);
    shown_number_ = number;
    put_titled(heading.append("  ").append(formula), shape);
  }

  // A title and the text after it, or below it if the line is too narrow for both.
  void put_titled(const std::string& title, const std::string& rest) {
    const bool fits = rest.empty() || columns_of(title) + 3 + columns_of(rest) <= style_.width;
    std::string lines = wrapped(std::string_view(title).substr(3), title.substr(0, 3), 3, style_);
    lines.pop_back();
    text_ += "\n" + painted(lines, Paint::bold, style_) + (fits && !rest.empty() ? "   " + rest : "") + "\n";
    if (!fits) put_wrapped(rest, "   ", 3);
  }

  // Steps 2 and 5 move heads about and have no numbers of their own.
  void put_moves_before(int number) {
    const AttendSizes& s = all_.sizes;
    if (s.heads == 1 || !request_.steps.empty()) return;
    const auto shape = [](int64_t a, int64_t b, int64_t c) { return to_text(std::array<int64_t, 3>{a, b, c}); };
    if (number >= 3 && shown_number_ < 2) {
      put_heading(2, "heads first, each on its own",
                  "q " + shape(s.heads, s.t_q, s.d_k) + ", k " + shape(s.kv_heads, s.t_k, s.d_k) + ", v " +
                      shape(s.kv_heads, s.t_k, s.d_v));
    }
    if (number >= 6 && shown_number_ < 5) {
      put_heading(5, "tokens first again", shape(s.t_q, s.heads, s.d_v));
    }
  }

  void put_step(const Recording& step) {
    const AttentionStep id = step_named(step.name);
    const int number = step_row(id).number;
    put_moves_before(number);
    put_heading(number, step_formula(given_, id), shape_text(step));
    const bool projected = number == 1 && given_.layer.given();
    if (projected && step.values.shape()[2] > kMostMatrices) {
      text_ += "  the heads side by side\n";
      put_matrices(side_by_side(step));
    } else {
      put_matrices(step);
    }
    if (number == 0 && request_.steps.empty()) {
      const bool last = id == AttentionStep::context || given_.is_self();
      if (last) put_parameters();
    }
  }

  // [B, T, H, D] → [B, T, H·D]: as the projection gives it, before step 2 takes the heads apart.
  static Recording side_by_side(const Recording& step) {
    const auto merged = [](const std::vector<int64_t>& s) { return std::vector<int64_t>{s[0], s[1], s[2] * s[3]}; };
    const AttentionStep weight = step_row(step_named(step.name)).sources[1];
    Recording made{step.name, {step.dims[0], step.dims[1], step_row(weight).dims[1]}, {}, {}, {}};
    made.whole = merged(step.whole);
    made.first = {step.first[0], step.first[1], step.first[2] * step.whole[3]};
    made.values = Tensor(merged(step.values.shape()));
    std::copy(step.values.values().begin(), step.values.values().end(), made.values.values().begin());
    return made;
  }

  void put_parameters() {
    for (const AttentionStep step : parameters_of(given_.layer)) {
      const View<const float, 2> parameter = parameter_of(given_.layer, step);
      const std::string title = "   " + std::string(step_name(step));
      if (step_row(step).dims.size() == 1) {
        put_titled(title, to_text(Shape<1>{parameter.size(1)}));
        text_ += matrix_text({parameter}, style_);
        continue;
      }
      MatrixText matrix{parameter.transposed()};
      matrix.corner_rows = 2;
      put_titled(title, "[inputs, outputs] = " + to_text(matrix.values.shape()));
      text_ += matrix_text(matrix, style_);
    }
  }

  // The rows of a matrix of a step are its tokens; the other dimensions but the last count matrices.
  void put_matrices(const Recording& step) {
    const std::vector<int64_t>& shape = step.values.shape();
    const size_t rank = shape.size();
    const bool by_token = rank == 4 && counts_tokens(step.dims[1]);  // [B, T, H, D]
    const int64_t batch = shape[0];
    const int64_t heads = rank < 4 ? 1 : by_token ? shape[2] : shape[1];
    const int64_t first_head = rank < 4 ? 0 : by_token ? step.first[2] : step.first[1];
    const int64_t rows = by_token || rank == 3 ? shape[1] : shape[2];
    const int64_t columns = shape[rank - 1];
    const int64_t count = batch * heads;
    for (int64_t n = 0; n < count; ++n) {
      if (count > kMostMatrices && n == 1) {
        text_ += "  " + left_out(style_) + " " + std::to_string(count - 2) + " more\n";
        n = count - 1;
      }
      const int64_t b = n / heads, h = n % heads;
      std::vector<std::string> caption;
      if (batch > 1) caption.push_back("item " + std::to_string(b));
      if (rank == 4 && (by_token ? step.whole[2] : step.whole[1]) > 1) {
        caption.push_back("head " + std::to_string(first_head + h));
      }
      if (!caption.empty()) text_ += "  " + joined(caption, ", ") + "\n";
      const float* data = step.values.values().data();
      const int64_t row_step = by_token ? heads * columns : columns;
      const int64_t offset = by_token ? b * rows * heads * columns + h * columns : n * rows * columns;
      put_matrix(step, {data + offset, {rows, columns}, {row_step, 1}}, {b, h});
    }
  }

  void put_matrix(const Recording& step, const View<const float, 2>& values, const std::array<int64_t, 2>& place) {
    const bool scores = step.dims.back() == Dim::t_k;
    MatrixText matrix{values};
    const bool of_queries = scores || step.dims[1] == Dim::t_q;
    const auto& labels = of_queries ? given_.query_tokens : given_.key_tokens;
    const int64_t first = scores ? step.first[2] : step.first[1];
    matrix.first_row = first;
    if (!labels.empty()) matrix.row_labels = {labels.begin() + first, labels.begin() + first + values.size(0)};
    if (scores) {
      matrix.column_labels = given_.key_tokens;
      matrix.number_columns = true;
      matrix.sums = step.name == step_name(AttentionStep::weights) && !given_.sigmoid;
      if (all_.visible.count() > 0 && step.values.shape() == all_.visible.shape()) {
        matrix.visible = all_.visible.view<4>()[place[0]][place[1]];
      }
    }
    text_ += matrix_text(matrix, style_);
  }

  void put_comparison(const Comparison& each) {
    put_titled("   " + each.title, each.right ? "" : "(not attention)");
    put_wrapped(each.formula, "    ", 4);
    MatrixText matrix{each.values.view<2>()};
    const bool tokens = static_cast<int64_t>(given_.query_tokens.size()) == each.values.shape()[0];
    if (tokens) matrix.row_labels = matrix.column_labels = given_.query_tokens;
    matrix.number_columns = true;
    matrix.sums = true;
    text_ += matrix_text(matrix, style_);
    put_wrapped(each.why, "    ", 4);
  }

  void put_gradients() {
    if (!request_.gradients) return;
    put_titled("gradients", request_.d_out == nullptr ? "of the sum of the result: d_out is 1 everywhere"
                                                      : "of the sum of d_out times the result");
    for (const Gradient& each : all_.gradients) {
      put_titled("   " + each.recording.name, shape_text(each.recording));
      if (each.recording.dims.size() == 2) {
        text_ += matrix_text({each.recording.values.view<2>()}, style_);
      } else {
        put_matrices(each.recording);
      }
      const int64_t count = each.recording.values.count();
      if (each.finite_difference_error) {
        const std::string of = each.checked == count
                                   ? counted(count, "entry", "entries")
                                   : std::to_string(each.checked) + " of " + std::to_string(count) + " entries";
        put_wrapped("finite differences in double: within " + small(*each.finite_difference_error) + ", " + of, "    ",
                    6);
      } else {
        text_ += "    finite differences in double: not taken\n";
      }
    }
  }

  void put_top_keys() {
    if (request_.top_k == 0) return;
    put_titled("   top keys", "each row's keys of the largest weights");
    for (const TopKeys& row : all_.top_keys) {
      std::vector<std::string> where;
      if (all_.sizes.batch > 1) where.push_back("item " + std::to_string(row.b));
      if (all_.sizes.heads > 1) where.push_back("head " + std::to_string(row.head));
      where.push_back(label(given_.query_tokens, row.row, "row "));
      std::vector<std::string> keys;
      for (size_t n = 0; n < row.keys.size(); ++n) {
        keys.push_back(label(given_.key_tokens, row.keys[n], "key ") + " " + number_text(row.weights[n], style_));
      }
      if (keys.empty()) keys.emplace_back("no visible key");
      std::string about = row.entropy ? "entropy " + number_text(*row.entropy, style_) + ", " : "";
      about.append("largest score ").append(number_text(row.largest, style_));
      put_wrapped(joined(where, ", ") + ": " + joined(keys, ", ") + " (" + about + ")", "    ", 6);
    }
  }

  static std::string label(const std::vector<std::string>& tokens, int64_t at, const std::string& before) {
    return tokens.empty() ? before + std::to_string(at) : tokens[static_cast<size_t>(at)];
  }

  void put_check(const std::string& name, const std::string& text) {
    std::string first = "  " + name;
    first.resize(22, ' ');
    put_wrapped(text, first, 22);
  }

  void put_checks() {
    const AttendChecks& c = all_.checks;
    text_ += "\n" + painted("checks", Paint::bold, style_) + "\n";
    const std::string nonfinite = nonfinite_text(c);
    if (!nonfinite.empty()) put_check("not finite", nonfinite);
    if (c.row_sum_max_err) {
      put_check("row sums",
                "1 within " + small(*c.row_sum_max_err) + (c.rows_nonfinite > 0 ? ", of the finite rows" : ""));
    } else if (c.rows_nonfinite > 0 && c.rows_nonfinite == c.rows_shown) {
      put_check("row sums", "none to check: no row is finite");
    } else if (given_.sigmoid) {
      put_check("row sums", "none to check: with sigmoid each weight stands for itself");
    } else if (given_.sinks.count() > 0) {
      put_check("row sums", "below 1 by what the sink takes");
    }
    if (c.ref_max_abs_diff) {
      std::string text = "weights, heads" +
                         std::string(given_.layer.out.count() > 0 && c.from_projections ? ", out" : "") + " within " +
                         small(*c.ref_max_abs_diff);
      if (c.rows_checked < c.rows_shown) {
        text += ", on " + std::to_string(c.rows_checked) + " of " + std::to_string(c.rows_shown) + " rows";
      }
      if (given_.layer.given() && !c.from_projections) text += ", from q, k and v on";
      if (!nonfinite.empty()) text += ", of what is finite";
      put_check("float64 reference", text);
    } else if (!nonfinite.empty()) {
      put_check("float64 reference", "none to compare: nothing is finite");
    }
    put_check("visible pairs", std::to_string(c.visible_pairs) + " of " + std::to_string(c.pairs));
    if (c.rows_without_key > 0) {
      put_check("rows without a key", std::to_string(c.rows_without_key) + ", the first is " + c.first_row_without_key +
                                          ": weights and output 0");
    }
    const AttentionPlan& p = all_.plan;
    put_check("plan", p.isa + "; " + counted(p.pieces, "piece", "pieces") + " of " + std::to_string(p.piece_keys) +
                          " keys, " + std::to_string(p.pieces_skipped) + " skipped; " +
                          std::to_string(p.flops_forward) + " FLOPs forward; " + std::to_string(p.bytes) + " bytes");
  }

  const AttendCase& given_;
  const AttendRequest& request_;
  const Walkthrough& all_;
  const TextStyle& style_;
  std::string text_;
  int shown_number_ = -1;
};

}  // namespace

std::string attend_text(const AttendCase& given, const AttendRequest& request, const Walkthrough& walkthrough,
                        const TextStyle& style) {
  return Renderer(given, request, walkthrough, style).text();
}

}  // namespace heed::explain
