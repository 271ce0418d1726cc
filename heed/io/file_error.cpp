#include "heed/io/file_error.h"

#include <utility>

namespace heed::io {
namespace {

bool is_control(unsigned char byte) { return byte < 0x20 || byte == 0x7f; }

// U+0080 to U+009F, which some terminals obey like escape sequences: C2 80 to C2 9F.
bool is_high_control(std::string_view text, size_t i) {
  const auto byte = [&](size_t at) { return static_cast<unsigned char>(text[at]); };
  return byte(i) == 0xc2 && i + 1 < text.size() && byte(i + 1) >= 0x80 && byte(i + 1) < 0xa0;
}

void put_escaped(std::string& out, unsigned char byte) {
  constexpr const char* kDigits = "0123456789abcdef";
  out += "\\x";
  out += kDigits[byte >> 4];
  out += kDigits[byte & 15];
}

std::string without_controls(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (is_control(byte)) {
      put_escaped(out, byte);
    } else if (is_high_control(text, i)) {
      put_escaped(out, byte);
      put_escaped(out, static_cast<unsigned char>(text[++i]));
    } else {
      out += text[i];
    }
  }
  return out;
}

std::string place(const std::string& path, const FileProblem& problem) {
  std::string at = path;
  if (problem.line > 0) at.append(":").append(std::to_string(problem.line));
  if (!problem.where.empty()) at.append(", ").append(problem.where);
  return without_controls(at);
}

std::string whole_text(const std::string& path, const FileProblem& problem) {
  std::string text = without_controls(problem.what) + " [" + place(path, problem) + "]";
  if (!problem.hint.empty()) text += "; " + without_controls(problem.hint);
  return text;
}

}  // namespace

std::string in_quotes(std::string_view text) {
  constexpr size_t kMost = 100;
  size_t end = text.size();
  if (end > kMost) {
    end = kMost;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xc0) == 0x80) --end;  // not within a character of UTF-8
  }
  std::string result = "'";
  result += without_controls(text.substr(0, end));
  result += end < text.size() ? "…'" : "'";
  return result;
}

FileError::FileError(std::string path, const FileProblem& problem)
    : Error(whole_text(path, problem)),
      path_(std::move(path)),
      message_(without_controls(problem.what)),
      at_(place(path_, problem)),
      hint_(without_controls(problem.hint)) {}

}  // namespace heed::io
