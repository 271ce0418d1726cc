// What stands between a TOML file from anywhere and the parser, which trusts its input more than it should.
#pragma once

#include <string>
#include <string_view>

namespace heed::io {

// The same document in ASCII, line by line: other characters of "texts" as escapes, those of comments as '?'. Refused,
// with an error that names `path` and the line:
//   - bytes that are not UTF-8, and characters beyond ASCII elsewhere: the parser's tables for them have holes;
//   - names of many dots: the parser nests a table for each, and neither it nor what frees them bounds the depth.
std::string prepare_toml(std::string_view text, const std::string& path);

}  // namespace heed::io
