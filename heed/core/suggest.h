// "Did you mean": suggests the closest known name.
#pragma once

#include <string>
#include <vector>

namespace heed {

// "did you mean 'x'?" for the closest name, if it is close enough to be a typo; otherwise empty.
std::string did_you_mean(const std::string& word, const std::vector<std::string>& names);

}  // namespace heed
