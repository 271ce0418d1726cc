#include "heed/explain/nested_numbers.h"

#include <algorithm>
#include <cmath>

namespace heed::explain {
namespace {

using io::TomlValue;

constexpr int kMostNesting = 3;
constexpr double kMostValue = 1e30;  // products of four such numbers stay far from overflow
constexpr size_t kMostCharacters = 40;
constexpr const char* kLeftOut = "?";

// How deep arrays nest; an empty one counts.
int depth_of(const TomlValue& value) {
  if (value.kind != TomlValue::Kind::array) return 0;
  int deepest = 0;
  for (const TomlValue& each : value.items) deepest = std::max(deepest, depth_of(each));
  return deepest + 1;
}

class NumberReader {
 public:
  NumberReader(const NamedValue& value, const NumberRules& rules) : value_(value), rules_(rules) {}

  NestedNumbers read() {
    const int depth = depth_of(value_.value);
    if (depth > kMostNesting) {
      value_.refuse("arrays nested " + std::to_string(depth) + " deep",
                    "a matrix is [[…], […]]; one a head is [[[…], […]], [[…], […]]]");
    }
    result_.shape.assign(static_cast<size_t>(depth), 0);
    measure(value_.value, 0);
    if (std::count(result_.shape.begin(), result_.shape.end(), 0) > 0) value_.refuse("no numbers");
    fill(&value_.value, 0);
    return std::move(result_);
  }

 private:
  const NamedValue& value_;
  const NumberRules& rules_;
  NestedNumbers result_;
  std::vector<int64_t> at_;  // indices of the current value

  size_t depth() const { return result_.shape.size(); }

  // "head 0, row 1": the array that at_ leads to.
  std::string place() const {
    std::string text;
    for (size_t level = 0; level < at_.size(); ++level) {
      const size_t from_inside = depth() - level;  // 1: a number, 2: a row, 3: a head
      const char* what = from_inside == 1 ? "number" : from_inside == 2 ? "row" : "head";
      text += (text.empty() ? "" : ", ") + std::string(what) + " " + std::to_string(at_[level]);
    }
    return text.empty() ? "it " : text + " ";
  }

  // Records the sizes of the arrays and rejects those that differ.
  void measure(const TomlValue& value, size_t level) {
    if (level == depth()) {
      if (value.kind == TomlValue::Kind::array) value_.refuse(value, place() + "is an array among numbers");
      return;
    }
    if (value.kind != TomlValue::Kind::array) {
      value_.refuse(value, place() + "is " + io::describe(value) + " among arrays");
    }
    const auto size = static_cast<int64_t>(value.items.size());
    if (size == 0) {
      if (rules_.left_out && level > 0) return;
      value_.refuse(value, place() + "is empty");
    }
    int64_t& expected = result_.shape[level];
    if (expected == 0) expected = size;
    if (size != expected) {
      const bool row = level + 1 == depth();
      value_.refuse(value,
                    place() + "has " + std::to_string(size) + (row ? " number" : " row") + (size == 1 ? "" : "s") +
                        ", the one before it " + std::to_string(expected),
                    rules_.left_out ? "leave a number out with \"?\", a whole row with []" : "rows are equally long");
    }
    for (int64_t n = 0; n < size; ++n) {
      at_.push_back(n);
      measure(value.items[static_cast<size_t>(n)], level + 1);
      at_.pop_back();
    }
  }

  // Appends the numbers below `value`; null or an empty array: left out.
  void fill(const TomlValue* value, size_t level) {
    if (level == depth()) {
      result_.numbers.push_back(value == nullptr ? std::nullopt : number(*value));
      return;
    }
    const bool left_out = value == nullptr || value->items.empty();
    for (int64_t n = 0; n < result_.shape[level]; ++n) {
      at_.push_back(n);
      fill(left_out ? nullptr : &value->items[static_cast<size_t>(n)], level + 1);
      at_.pop_back();
    }
  }

  std::optional<WrittenNumber> number(const TomlValue& value) const {
    if (rules_.left_out && value.kind == TomlValue::Kind::text && value.text == kLeftOut) return std::nullopt;
    if (rules_.booleans && value.kind == TomlValue::Kind::boolean) {
      return WrittenNumber{value.boolean ? 1.0 : 0.0, 1.0, value.boolean ? "true" : "false", value.line};
    }
    if (value.kind != TomlValue::Kind::number) {
      value_.refuse(value, place() + "is " + io::describe(value) + ", not a number",
                    rules_.left_out ? "leave a number out with \"?\"" : "");
    }
    if (value.text.size() > kMostCharacters) {
      value_.refuse(value, place() + "is written with " + std::to_string(value.text.size()) + " characters",
                    std::to_string(kMostCharacters) + " are enough for any number here");
    }
    if (value.text.find_first_of("xob") != std::string::npos) {
      value_.refuse(value, place() + "is " + value.text, "write it in decimal digits");
    }
    const bool hidden = std::isinf(value.number) && value.number < 0.0;
    if (hidden && rules_.minus_infinity) return WrittenNumber{value.number, 1.0, value.text, value.line};
    if (!std::isfinite(value.number)) {
      value_.refuse(value, place() + "is " + value.text + ", which is not finite",
                    hidden ? "only bias, mask, biased and masked may have -inf" : "");
    }
    const double unit = unit_of(value.text);
    if (std::abs(value.number) > kMostValue || unit > kMostValue || unit < 1.0 / kMostValue) {
      value_.refuse(value, place() + "is " + value.text, "numbers up to 1e30 are taken, with digits down to 1e-30");
    }
    return WrittenNumber{value.number, unit, value.text, value.line};
  }
};

// What a step's matrices are.
enum class Layout { one_matrix, side_by_side, weight_by_head, by_head };

Layout layout_of(AttentionStep step) {
  const StepRow& row = step_row(step);
  if (is_query_by_key(step)) return Layout::by_head;
  if (std::any_of(row.dims.begin(), row.dims.end(), counts_heads)) return Layout::side_by_side;
  // W_Q, W_K and W_V: the columns are those of heads. The rows of W_O are, and they stay one matrix.
  const bool of_heads = row.number == 1 && row.kind == StepKind::parameter && row.dims.size() == 2;
  return of_heads ? Layout::weight_by_head : Layout::one_matrix;
}

// How many heads its columns are of.
int64_t heads_of(AttentionStep step, const StepRules& rules) {
  const std::span<const Dim> dims = step_row(step).dims;
  const bool of_keys = std::any_of(dims.begin(), dims.end(), [](Dim each) {
    return each == Dim::h_kv || each == Dim::h_kv_d_k || each == Dim::h_kv_d_v;
  });
  return of_keys ? rules.kv_heads : rules.heads;
}

// [rows][count·columns] → [count][rows][columns]
void split_columns(ClaimedStep& step, int64_t count) {
  const ClaimedStep whole = step;
  step.count = count;
  step.columns = whole.columns / count;
  for (int64_t n = 0; n < count; ++n) {
    for (int64_t i = 0; i < step.rows; ++i) {
      for (int64_t j = 0; j < step.columns; ++j) {
        step.numbers[static_cast<size_t>((n * step.rows + i) * step.columns + j)] =
            whole.at(0, i, n * step.columns + j);
      }
    }
  }
}

// [count][rows][columns] → [rows][count·columns]
void join_columns(ClaimedStep& step) {
  const ClaimedStep parts = step;
  step.count = 1;
  step.columns = parts.count * parts.columns;
  for (int64_t n = 0; n < parts.count; ++n) {
    for (int64_t i = 0; i < parts.rows; ++i) {
      for (int64_t j = 0; j < parts.columns; ++j) {
        step.numbers[static_cast<size_t>(i * step.columns + n * parts.columns + j)] = parts.at(n, i, j);
      }
    }
  }
}

}  // namespace

void NamedValue::refuse(const std::string& what, const std::string& hint) const { refuse(value, what, hint); }

void NamedValue::refuse(const TomlValue& inner, const std::string& what, const std::string& hint) const {
  throw io::FileError(path, {name + ": " + what, "", hint, inner.line});
}

NestedNumbers read_numbers(const NamedValue& value, const NumberRules& rules) {
  return NumberReader(value, rules).read();
}

ClaimedStep arrange(const NamedValue& value, NestedNumbers numbers, AttentionStep step, const StepRules& rules) {
  std::vector<int64_t> shape = numbers.shape;
  while (shape.size() < 2) shape.insert(shape.begin(), 1);
  const bool is_bias = step_row(step).dims.size() == 1;
  if (is_bias && shape.size() == 2) shape = {1, shape[0] * shape[1]};  // [H][D] is one row
  const bool three = shape.size() == 3;
  ClaimedStep result{step, three ? shape[0] : 1, shape[shape.size() - 2], shape.back(), std::move(numbers.numbers)};
  const Layout layout = layout_of(step);
  const int64_t heads = heads_of(step, rules);
  if (three && (layout == Layout::one_matrix || result.count != heads)) {
    value.refuse(layout == Layout::one_matrix
                     ? "three levels of arrays; it is one matrix, [[…], […]]"
                     : std::to_string(result.count) + " matrices for " + std::to_string(heads) + " heads");
  }
  if (three && layout == Layout::weight_by_head) join_columns(result);
  if (!three && layout == Layout::by_head && heads > 1) {
    value.refuse("one matrix for " + std::to_string(heads) + " heads", "give one a head: [[[…], […]], [[…], […]]]");
  }
  if (!three && layout == Layout::side_by_side && heads > 1) {
    if (result.columns % heads != 0) {
      value.refuse(std::to_string(heads) + " heads do not divide " + std::to_string(result.columns) + " columns");
    }
    split_columns(result, heads);
  }
  return result;
}

}  // namespace heed::explain
