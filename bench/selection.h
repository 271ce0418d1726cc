// Which rows of a table the user asked for.
#pragma once

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

namespace heed::bench {

struct Selection {
  std::vector<std::string> names;  // of rows or groups; none: all but those only_if_named
  std::string matching;            // a part of the row's name
  bool quick = false;              // without slow rows, unless they were asked for
};

// What every row of a table has beside its sizes.
struct CaseName {
  std::string name;            // forward-d64-t512-causal
  std::string group;           // forward
  bool slow = false;           // takes seconds
  bool only_if_named = false;  // takes minutes, or is no matter of speed
};

inline bool is_selected(const CaseName& each, const Selection& selection) {
  const bool named = std::ranges::any_of(
      selection.names, [&](const std::string& name) { return name == each.name || name == each.group; });
  if (selection.names.empty() ? each.only_if_named : !named) return false;
  if (each.name.find(selection.matching) == std::string::npos) return false;
  const bool row_asked_for = std::ranges::find(selection.names, each.name) != selection.names.end();
  return !selection.quick || !each.slow || row_asked_for || !selection.matching.empty();
}

// The selected cases, in the order of the table.
template <class Case>
std::vector<Case> select(const std::vector<Case>& cases, const Selection& selection) {
  std::vector<Case> chosen;
  std::ranges::copy_if(cases, std::back_inserter(chosen),
                       [&](const Case& each) { return is_selected(each.label, selection); });
  return chosen;
}

// Every group and name, for hints and checks.
template <class Case>
std::vector<std::string> groups_and_names(const std::vector<Case>& cases) {
  std::vector<std::string> all;
  for (const Case& each : cases) {
    if (std::ranges::find(all, each.label.group) == all.end()) all.push_back(each.label.group);
  }
  for (const Case& each : cases) all.push_back(each.label.name);
  return all;
}

}  // namespace heed::bench
