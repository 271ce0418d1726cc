#include "heed/explain/check_text.h"

#include <algorithm>
#include <numeric>
#include <sstream>

namespace heed::explain {
namespace {

constexpr size_t kMostRows = 8;  // of a step; a step of this many is shown whole
constexpr Verdict kVerdicts[] = {Verdict::right, Verdict::cut, Verdict::near, Verdict::wrong, Verdict::follows};

bool all_right(const GradedRow& row) {
  return std::all_of(row.numbers.begin(), row.numbers.end(),
                     [](auto* each) { return each->verdict == Verdict::right; });
}

// The number of a column; null where it was left out.
const GradedNumber* find(const GradedRow& row, size_t column) {
  const auto found = std::lower_bound(row.numbers.begin(), row.numbers.end(), static_cast<int64_t>(column),
                                      [](const GradedNumber* each, int64_t wanted) { return each->column < wanted; });
  return found != row.numbers.end() && (*found)->column == static_cast<int64_t>(column) ? *found : nullptr;
}

// The first `most` of `count` things in their order, those that `matter` before the others.
template <class Matters>
std::vector<size_t> choose(size_t count, size_t most, Matters matter) {
  std::vector<size_t> chosen(count);
  std::iota(chosen.begin(), chosen.end(), size_t{0});
  std::stable_partition(chosen.begin(), chosen.end(), matter);
  chosen.resize(std::min(count, most));
  std::sort(chosen.begin(), chosen.end());
  return chosen;
}

// "4 right, 2 cut": what there is of each verdict; with `all` right, cut, near and wrong even where there is none.
template <class Counted>
std::string tally(const Counted& counted, bool all) {
  std::string text;
  for (const Verdict each : kVerdicts) {
    const int64_t count = counted.count(each);
    if (count == 0 && !(all && each != Verdict::follows)) continue;
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " ";
    text += each != Verdict::follows ? std::string(verdict_name(each))
            : count == 1             ? "follows from an earlier slip"
                                     : "follow from an earlier slip";
  }
  return text;
}

class Renderer {
 public:
  explicit Renderer(const TextStyle& style) : style_(style) {}

  std::string render(const std::string& file, const WorkedExample& example, const Grading& grading) {
    const std::string& title = example.title.empty() ? file : example.title;
    out_ << painted(printable(title), Paint::bold, style_) << "\n";
    if (!example.source.empty()) put_wrapped("source: " + printable(example.source), "", 2);
    for (const GradedStep& step : grading.steps) put_step(step);
    if (grading.count(Verdict::right) < grading.numbers()) put_legend(grading);
    if (!grading.remarks.empty()) out_ << "\nremarks\n";
    for (const Remark& remark : grading.remarks) put_wrapped(remark.text, "- ", 2);
    out_ << "\n" << summary(grading) << "\n";
    return out_.str();
  }

 private:
  static constexpr int kNameWidth = 7;   // "claimed", "exact", "carried", "verdict"
  static constexpr int kRightWidth = 7;  // "  right" behind a row

  // The columns of a step's table.
  struct Layout {
    int label = 0;  // width of a row's place
    int cell = 0;
    std::vector<size_t> columns;  // those that are shown

    int left() const { return 2 + label + kNameWidth; }
  };

  void put_wrapped(const std::string& text, const std::string& first, int indent) {
    out_ << wrapped(text, first, indent, style_);
  }

  void put_step(const GradedStep& step) {
    out_ << "\n"
         << painted(step.formula, Paint::bold, style_) << "  " << to_text(step.shape) << "  " << tally(step, false)
         << "\n";
    const std::vector<GradedRow> rows = rows_of(step);
    const Layout layout = layout_of(step);
    const std::vector<size_t> shown = choose(rows.size(), kMostRows, [&](size_t row) { return !all_right(rows[row]); });
    const auto columns = static_cast<size_t>(step.shape.back());
    if (layout.columns.size() < columns) put_column_numbers(layout);
    for (const size_t each : shown) put_row(rows[each], place_of(step, rows[each].head, rows[each].row), layout);
    put_omissions(rows, shown);
    const auto left = static_cast<int64_t>(columns - layout.columns.size());
    if (left > 0) {
      out_ << "  … " << counted(left, "more column", "more columns") << " of " << std::to_string(columns) << "\n";
    }
  }

  Layout layout_of(const GradedStep& step) const {
    Layout layout;
    for (const GradedNumber& each : step.numbers) {
      for (const std::string& text : {each.claimed.text, exact_text(each), carried_text(each), verdict_text(each)}) {
        layout.cell = std::max(layout.cell, columns_of(text));
      }
    }
    layout.cell += 2;
    layout.label = columns_of(place_of(step, step.shape.front(), step.shape[step.shape.size() - 2])) + 2;
    const int most = std::max(1, (style_.width - layout.left() - kRightWidth) / layout.cell);
    layout.columns = choose(static_cast<size_t>(step.shape.back()), static_cast<size_t>(most), [&](size_t column) {
      return std::any_of(step.numbers.begin(), step.numbers.end(), [&](const GradedNumber& each) {
        return static_cast<size_t>(each.column) == column && each.verdict != Verdict::right;
      });
    });
    return layout;
  }

  static std::string exact_text(const GradedNumber& number) { return beside_text(number.exact, number.claimed.unit); }
  static std::string carried_text(const GradedNumber& number) {
    return beside_text(number.carried, number.claimed.unit);
  }
  static std::string verdict_text(const GradedNumber& number) { return std::string(verdict_name(number.verdict)); }

  std::string paint_verdict(Verdict verdict, const std::string& text) const {
    switch (verdict) {
      case Verdict::right:
        return painted(text, Paint::green, style_);
      case Verdict::wrong:
        return painted(text, Paint::red, style_);
      case Verdict::follows:
        return painted(text, Paint::blue, style_);
      default:
        return painted(text, Paint::yellow, style_);
    }
  }

  void put_column_numbers(const Layout& layout) {
    out_ << padded_left("column ", layout.left());
    for (const size_t each : layout.columns) out_ << padded_left(std::to_string(each), layout.cell);
    out_ << "\n";
  }

  // A line of the table: text(number) for each shown column.
  template <class Text>
  void put_line(const GradedRow& row, const std::string& place, const Layout& layout, const std::string& name,
                Text text) {
    const bool first = name == "claimed";
    out_ << "  " << padded_right(first ? place : "", layout.label) << padded_right(name, kNameWidth);
    std::string line;
    for (const size_t column : layout.columns) {
      const GradedNumber* number = find(row, column);
      const std::string cell = number == nullptr ? (first ? "?" : "") : text(*number);
      const std::string shown = padded_left(cell, layout.cell);
      line += name == "verdict" && number != nullptr ? paint_verdict(number->verdict, shown) : shown;
    }
    out_ << line.substr(0, line.find_last_not_of(' ') + 1);
  }

  void put_row(const GradedRow& row, const std::string& place, const Layout& layout) {
    put_line(row, place, layout, "claimed", [](const GradedNumber& each) { return each.claimed.text; });
    if (all_right(row)) {
      out_ << "  " << paint_verdict(Verdict::right, "right") << "\n";
      return;
    }
    out_ << "\n";
    put_line(row, place, layout, "exact", exact_text);
    out_ << "\n";
    const bool carried = std::any_of(row.numbers.begin(), row.numbers.end(), [](auto* each) {
      return each->from_exact == Verdict::wrong && exact_text(*each) != carried_text(*each);
    });
    if (carried) {
      showed_carried_ = true;
      put_line(row, place, layout, "carried", carried_text);
      out_ << "\n";
    }
    put_line(row, place, layout, "verdict", verdict_text);
    out_ << "\n";
  }

  // Says how many rows are not shown, and whether something is wrong in them.
  void put_omissions(const std::vector<GradedRow>& rows, const std::vector<size_t>& shown) {
    if (shown.size() == rows.size()) return;
    int64_t not_right = std::count_if(rows.begin(), rows.end(), [](const GradedRow& row) { return !all_right(row); });
    for (const size_t each : shown) not_right -= all_right(rows[each]) ? 0 : 1;
    const auto left = static_cast<int64_t>(rows.size() - shown.size());
    out_ << "  … " << counted(left, "more row", "more rows") << ", "
         << (not_right == 0 ? "all right" : std::to_string(not_right) + " of them not") << "\n";
  }

  void put_meaning(const std::string& name, const std::string& shown, const std::string& meaning) {
    constexpr int kColumn = 11;
    // The name may be painted, which takes no columns.
    out_ << "  " << shown << std::string(static_cast<size_t>(kColumn - 2 - columns_of(name)), ' ')
         << wrapped(meaning, std::string(kColumn, ' '), kColumn, style_).substr(kColumn);
  }

  void put_legend(const Grading& grading) {
    out_ << "\n";
    if (showed_carried_) put_meaning("carried", "carried", "what the claimed steps before it give");
    const auto explain = [&](Verdict verdict, const char* text) {
      const std::string name(verdict_name(verdict));
      if (grading.count(verdict) > 0) put_meaning(name, paint_verdict(verdict, name), text);
    };
    explain(Verdict::cut, "the digits that follow were dropped instead of rounded");
    explain(Verdict::near, "within two units of the last digit: something before it had been rounded");
    explain(Verdict::follows, "not the exact value, but what the claimed steps before it give");
    explain(Verdict::wrong, "not the exact value, and no earlier slip explains it");
  }

  static std::string summary(const Grading& grading) {
    const std::string text = counted(grading.numbers(), "number", "numbers") + ": " + tally(grading, true);
    const GradedNumber* first = grading.first_wrong();
    if (first == nullptr) return text + "; nothing is wrong";
    const GradedStep& step = *grading.first_wrong_step();
    return text + "; first wrong step: " + std::string(step_name(step.step)) + ", " +
           place_of(step, first->head, first->row);
  }

  const TextStyle& style_;
  std::ostringstream out_;
  bool showed_carried_ = false;
};

}  // namespace

std::string check_text(const std::string& file, const WorkedExample& example, const Grading& grading,
                       const TextStyle& style) {
  return Renderer(style).render(file, example, grading);
}

}  // namespace heed::explain
