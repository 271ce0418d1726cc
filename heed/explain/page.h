// One attention call as an HTML page that a browser opens from disk: a view of the output of `heed attend --json`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::explain {

// The page template: HTML, CSS and JavaScript of web/attend/, with the placeholders kAttendPageSteps for the table of
// steps and, after it, kAttendPageData for the data.
extern const std::string_view kAttendPage;
inline constexpr std::string_view kAttendPageSteps = "@steps@";
inline constexpr std::string_view kAttendPageData = "@json@";

// The most bytes of JSON that a page should hold. Chromium took 4 s to open 47 MB on two busy cores; its JavaScript
// cannot hold a string above 537 MB at all. attend_page itself accepts any size.
inline constexpr int64_t kMostPageBytes = 64'000'000;

// The whole page for `json`, the output of `heed attend --json`. It needs no server and no network, and its
// Content-Security-Policy forbids both. No text in `json` can break out of the element that holds it.
std::string attend_page(std::string_view json);

}  // namespace heed::explain
