// "Did you mean": the nearest of the names that exist.
#pragma once

#include <string>
#include <vector>

namespace heed {

// "did you mean 'x'?" for the nearest name that is near enough to be a slip; empty where none is.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace heed
