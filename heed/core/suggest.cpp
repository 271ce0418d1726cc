#include "heed/core/suggest.h"

#include <algorithm>
#include <numeric>

namespace heed {
namespace {

// Insertions, deletions and replacements that turn a into b.
size_t edit_distance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 0; i < a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b.size(); ++j) {
      const size_t replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& names) {
  size_t least = std::max<size_t>(2, word.size() / 3) + 1;
  std::string nearest;
  for (const std::string& name : names) {
    // Names may come from a file: those too long to be near are not compared.
    if (name.size() >= word.size() + least) continue;
    const size_t distance = edit_distance(word, name);
    if (distance >= least || distance >= std::max(word.size(), name.size())) continue;  // nothing in common
    least = distance;
    nearest = name;
  }
  return nearest.empty() ? "" : "did you mean '" + nearest + "'?";
}

}  // namespace heed
