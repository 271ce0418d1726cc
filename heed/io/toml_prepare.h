// Sanitises untrusted TOML for the parser, which trusts its input more than it should.
#pragma once

#include <string>
#include <string_view>

namespace heed::io {

// Returns the same document in ASCII, line by line: other characters become escapes in strings and '?' in comments.
// Rejected, with an error that names `path` and the line:
//   - bytes that are not UTF-8, and characters beyond ASCII elsewhere: the parser's tables for them have holes;
//   - names with many dots: the parser nests a table for each, and neither parsing nor freeing bounds the depth.
std::string prepare_toml(std::string_view text, const std::string& path);

}  // namespace heed::io
