// One attention call as a page that a browser opens from disk: the steps of `heed attend --json`, drawn.
#pragma once

#include <string>
#include <string_view>

namespace heed::explain {

// The page without data: HTML, style and script of web/attend/, with kAttendPageData where the data goes.
extern const std::string_view kAttendPage;
inline constexpr std::string_view kAttendPageData = "@json@";

// The whole page for `json`, a document as `heed attend --json` prints it. It needs no server and no network, and a
// Content-Security-Policy forbids it both. No text in `json` can leave the element that holds it.
std::string attend_page(std::string_view json);

}  // namespace heed::explain
