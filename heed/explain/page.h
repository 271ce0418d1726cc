// One attention call as a page that a browser opens from disk: the steps of `heed attend --json`, drawn.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace heed::explain {

// The page without data: HTML, style and script of web/attend/, with kAttendPageSteps where the table of steps goes and
// kAttendPageData, behind it, where the data goes.
extern const std::string_view kAttendPage;
inline constexpr std::string_view kAttendPageSteps = "@steps@";
inline constexpr std::string_view kAttendPageData = "@json@";

// The most bytes of JSON that a page should hold. Chromium took 4 s to open 47 MB on two busy cores; a text above
// 537 MB its JavaScript cannot hold at all. attend_page itself takes any size.
inline constexpr int64_t kMostPageBytes = 64'000'000;

// The whole page for `json`, a document as `heed attend --json` prints it. It needs no server and no network, and a
// Content-Security-Policy forbids it both. No text in `json` can leave the element that holds it.
std::string attend_page(std::string_view json);

}  // namespace heed::explain
