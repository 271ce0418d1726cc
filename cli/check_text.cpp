#include <algorithm>
#include <cmath>
#include <numeric>
#include <ostream>

#include "cli/check_report.h"

namespace heed::cli {
namespace {

using explain::GradedNumber;
using explain::GradedStep;
using explain::Grading;
using explain::Verdict;

constexpr size_t kMostRows = 8;  // of a step; a step of this many is shown whole
constexpr Verdict kVerdicts[] = {Verdict::right, Verdict::cut, Verdict::near, Verdict::wrong, Verdict::follows};

using explain::GradedRow;

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

std::string padded(const std::string& text, size_t width) {
  const auto columns = static_cast<size_t>(columns_of(text));
  return std::string(width - std::min(width, columns), ' ') + text;
}

std::string plural(int64_t count, const std::string& what) {
  return std::to_string(count) + " " + what + (count == 1 ? "" : "s");
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

class TextWriter {
 public:
  TextWriter(const Terminal& terminal, std::ostream& out) : terminal_(terminal), out_(out) {}

  void write_step(const GradedStep& step) {
    out_ << "\n"
         << painted(terminal_, Paint::bold, step.formula) << "  " << to_text(step.shape) << "  " << tally(step, false)
         << "\n";
    const std::vector<GradedRow> rows = explain::rows_of(step);
    size_t cell = 0;
    for (const GradedNumber& each : step.numbers) {
      for (const std::string& text : {each.claimed.text, exact_text(each), carried_text(each), verdict_text(each)}) {
        cell = std::max(cell, static_cast<size_t>(columns_of(text)));
      }
    }
    cell += 2;
    const size_t label = explain::place_of(step, step.shape.front(), step.shape[step.shape.size() - 2]).size() + 2;
    const size_t left = 2 + label + kNameWidth;
    const auto width = static_cast<size_t>(terminal_.width);
    const size_t most = std::max<size_t>(1, (width - std::min(width, left + kRightWidth)) / cell);
    const auto columns = static_cast<size_t>(step.shape.back());
    const std::vector<size_t> shown_columns = choose(columns, most, [&](size_t column) {
      return std::any_of(step.numbers.begin(), step.numbers.end(), [&](const GradedNumber& each) {
        return static_cast<size_t>(each.column) == column && each.verdict != Verdict::right;
      });
    });
    const std::vector<size_t> shown_rows =
        choose(rows.size(), kMostRows, [&](size_t row) { return !all_right(rows[row]); });
    if (shown_columns.size() < columns) write_column_numbers(shown_columns, left, cell);
    for (const size_t each : shown_rows) {
      write_row(rows[each], {explain::place_of(step, rows[each].head, rows[each].row), label, cell, shown_columns});
    }
    write_omissions(step, rows, shown_rows, columns - shown_columns.size());
  }

  void write_legend(const Grading& grading) {
    out_ << "\n";
    if (showed_carried_) write_meaning("carried", "carried", "what the claimed steps before it give");
    const auto explain = [&](Verdict verdict, const char* text) {
      const std::string name(verdict_name(verdict));
      if (grading.count(verdict) > 0) write_meaning(name, paint_verdict(verdict, name), text);
    };
    explain(Verdict::cut, "the digits that follow were dropped instead of rounded");
    explain(Verdict::near, "within two units of the last digit: something before it had been rounded");
    explain(Verdict::follows, "not the exact value, but what the claimed steps before it give");
    explain(Verdict::wrong, "not the exact value, and no earlier slip explains it");
  }

 private:
  static constexpr size_t kNameWidth = 7;   // "claimed", "exact", "carried", "verdict"
  static constexpr size_t kRightWidth = 7;  // "  right" behind a row
  const Terminal& terminal_;
  std::ostream& out_;
  bool showed_carried_ = false;

  struct RowLayout {
    std::string place;
    size_t label;
    size_t cell;
    const std::vector<size_t>& columns;
  };

  static std::string exact_text(const GradedNumber& number) {
    return explain::beside_text(number.exact, number.claimed.unit);
  }
  static std::string carried_text(const GradedNumber& number) {
    return explain::beside_text(number.carried, number.claimed.unit);
  }
  static std::string verdict_text(const GradedNumber& number) { return std::string(verdict_name(number.verdict)); }

  std::string paint_verdict(Verdict verdict, const std::string& text) const {
    switch (verdict) {
      case Verdict::right:
        return painted(terminal_, Paint::green, text);
      case Verdict::wrong:
        return painted(terminal_, Paint::red, text);
      case Verdict::follows:
        return painted(terminal_, Paint::blue, text);
      default:
        return painted(terminal_, Paint::yellow, text);
    }
  }

  void write_meaning(const std::string& name, const std::string& shown, const std::string& meaning) {
    constexpr size_t kColumn = 9;
    out_ << "  " << shown << std::string(kColumn - name.size(), ' ')
         << wrapped(meaning, terminal_.width, static_cast<int>(kColumn) + 2) << "\n";
  }

  void write_column_numbers(const std::vector<size_t>& columns, size_t left, size_t cell) {
    out_ << std::string(left - kNameWidth, ' ') << "column ";
    for (const size_t each : columns) out_ << padded(std::to_string(each), cell);
    out_ << "\n";
  }

  // A line of the table: text(number) for each shown column.
  template <class Text>
  void write_line(const GradedRow& row, const RowLayout& layout, const std::string& name, Text text) {
    const bool first = name == "claimed";
    out_ << "  " << (first ? layout.place : "") << std::string(layout.label - (first ? layout.place.size() : 0), ' ')
         << name << std::string(kNameWidth - name.size(), ' ');
    std::string line;
    for (const size_t column : layout.columns) {
      const GradedNumber* number = find(row, column);
      const std::string cell = number == nullptr ? (first ? "?" : "") : text(*number);
      const std::string shown = padded(cell, layout.cell);
      line += name == "verdict" && number != nullptr ? paint_verdict(number->verdict, shown) : shown;
    }
    out_ << line.substr(0, line.find_last_not_of(' ') + 1);
  }

  void write_row(const GradedRow& row, const RowLayout& layout) {
    write_line(row, layout, "claimed", [](const GradedNumber& each) { return each.claimed.text; });
    if (all_right(row)) {
      out_ << "  " << paint_verdict(Verdict::right, "right") << "\n";
      return;
    }
    out_ << "\n";
    write_line(row, layout, "exact", exact_text);
    out_ << "\n";
    const bool carried = std::any_of(row.numbers.begin(), row.numbers.end(), [](auto* each) {
      return each->from_exact == Verdict::wrong && exact_text(*each) != carried_text(*each);
    });
    if (carried) {
      showed_carried_ = true;
      write_line(row, layout, "carried", carried_text);
      out_ << "\n";
    }
    write_line(row, layout, "verdict", verdict_text);
    out_ << "\n";
  }

  void write_omissions(const GradedStep& step, const std::vector<GradedRow>& rows, const std::vector<size_t>& shown,
                       size_t columns) {
    const auto not_right = [&] {
      int64_t count = std::count_if(rows.begin(), rows.end(), [](const GradedRow& row) { return !all_right(row); });
      for (const size_t each : shown) count -= all_right(rows[each]) ? 0 : 1;
      return count;
    };
    if (shown.size() < rows.size()) {
      const int64_t left = static_cast<int64_t>(rows.size() - shown.size());
      out_ << "  … " << plural(left, "more row") << ", "
           << (not_right() == 0 ? "all right" : std::to_string(not_right()) + " of them not") << "\n";
    }
    if (columns > 0)
      out_ << "  … " << plural(static_cast<int64_t>(columns), "more column") << " of " << step.shape.back() << "\n";
  }
};

std::string summary(const Grading& grading) {
  std::string text = plural(grading.numbers(), "number") + ": " + tally(grading, true);
  const GradedNumber* first = grading.first_wrong();
  if (first == nullptr) return text + "; nothing is wrong";
  const GradedStep& step = *grading.first_wrong_step();
  return text + "; first wrong step: " + std::string(step_name(step.step)) + ", " +
         explain::place_of(step, first->head, first->row);
}

}  // namespace

void write_check_text(const std::string& file, const explain::WorkedExample& example, const Grading& grading,
                      const Terminal& terminal, std::ostream& out) {
  out << painted(terminal, Paint::bold, example.title.empty() ? printable(file) : printable(example.title)) << "\n";
  if (!example.source.empty()) out << wrapped("source: " + printable(example.source), terminal.width, 2) << "\n";
  TextWriter writer(terminal, out);
  for (const GradedStep& step : grading.steps) writer.write_step(step);
  if (grading.count(Verdict::right) < grading.numbers()) writer.write_legend(grading);
  if (!grading.remarks.empty()) out << "\nremarks\n";
  for (const explain::Remark& remark : grading.remarks) out << "- " << wrapped(remark.text, terminal.width, 2) << "\n";
  out << "\n" << summary(grading) << "\n";
}

}  // namespace heed::cli
