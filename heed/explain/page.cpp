#include "heed/explain/page.h"

namespace heed::explain {

std::string attend_page(std::string_view json) {
  const size_t place = kAttendPage.find(kAttendPageData);
  std::string page;
  page.reserve(kAttendPage.size() + json.size());
  page += kAttendPage.substr(0, place);
  // In JSON "<" occurs inside strings only, and there its escape means the same: neither </script> nor <!-- survives.
  for (const char letter : json) {
    if (letter == '<') {
      page += "\\u003c";
    } else {
      page += letter;
    }
  }
  page += kAttendPage.substr(place + kAttendPageData.size());
  return page;
}

}  // namespace heed::explain
