#include "heed/io/toml_prepare.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>

#include "heed/io/file_error.h"

namespace heed::io {
namespace {

constexpr int kMostDots = 16;

class Preparer {
 public:
  Preparer(std::string_view text, const std::string& path) : text_(text), path_(path) {}

  std::string prepare() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '"' || c == '\'') {
        put_quoted();
      } else if (c == '#') {
        put_comment();
      } else {
        put_plain(c);
      }
    }
    return std::move(out_);
  }

 private:
  std::string_view text_;
  const std::string& path_;
  size_t at_ = 0;
  std::string out_;
  int dots_ = 0;  // since the last character that ends a name

  [[noreturn]] void refuse(const std::string& what, const std::string& hint) const {
    const auto line = 1 + std::count(text_.begin(), text_.begin() + static_cast<std::ptrdiff_t>(at_), '\n');
    throw FileError(path_, {what, "", hint, static_cast<int>(line)});
  }

  bool is_ascii() const { return static_cast<unsigned char>(text_[at_]) < 0x80U; }

  void put() { out_ += text_[at_++]; }

  // The character of several bytes that begins here; goes behind it.
  uint32_t take_character() {
    const auto byte = [&](size_t n) { return static_cast<unsigned char>(n < text_.size() ? text_[n] : 0); };
    const unsigned char first = byte(at_);
    const size_t length = first >= 0xF0U ? 4 : first >= 0xE0U ? 3 : 2;
    uint32_t code = first & (0x7FU >> length);
    bool valid = first >= 0xC2U && first <= 0xF4U;
    for (size_t n = 1; n < length; ++n) {
      valid = valid && (byte(at_ + n) & 0xC0U) == 0x80U;
      code = code << 6U | (byte(at_ + n) & 0x3FU);
    }
    constexpr std::array<uint32_t, 5> kLeast = {0, 0, 0x80, 0x800, 0x10000};
    const bool surrogate = code >= 0xD800 && code <= 0xDFFF;
    if (!valid || code < kLeast[length] || code > 0x10FFFF || surrogate) refuse("not UTF-8", "save the file as UTF-8");
    at_ += length;
    return code;
  }

  void put_escape(uint32_t code) {
    std::array<char, 16> escape{};
    std::snprintf(escape.data(), escape.size(), "\\U%08X", static_cast<unsigned>(code));
    out_ += escape.data();
  }

  // One character of a quoted text.
  void put_inside(char quote) {
    if (quote == '"' && text_[at_] == '\\') {
      put();
      if (at_ >= text_.size()) return;
      if (is_ascii()) return put();
      take_character();
      refuse("not TOML: a backslash before a character that is not ASCII", "a backslash itself is written \\\\");
    }
    if (is_ascii()) return put();
    if (quote == '\'') refuse("a character that is not ASCII between single quotes", "write \"…\" instead of '…'");
    put_escape(take_character());
  }

  bool at_three(char quote) const { return text_.substr(at_, 3) == std::string(3, quote); }

  // A text to its end: that of the line unless it has three quotes; a text that never ends takes the rest.
  void put_quoted() {
    const char quote = text_[at_];
    if (!at_three(quote)) {
      put();
      while (at_ < text_.size() && text_[at_] != quote && text_[at_] != '\n') put_inside(quote);
      if (at_ < text_.size()) put();
      return;
    }
    for (int n = 0; n < 3; ++n) put();
    while (at_ < text_.size() && !at_three(quote)) put_inside(quote);
    for (int n = 0; n < 5 && at_ < text_.size() && text_[at_] == quote; ++n)
      put();  // """a""""" ends with two of its own
  }

  void put_comment() {
    while (at_ < text_.size() && text_[at_] != '\n') {
      if (is_ascii()) {
        put();
      } else {
        take_character();
        out_ += '?';
      }
    }
  }

  void put_plain(char c) {
    if (!is_ascii()) {
      take_character();
      refuse("not TOML: a character that is not ASCII outside of a text", "texts and unusual names stand in quotes");
    }
    if (c == '.' && ++dots_ > kMostDots) {
      refuse("a name with more than " + std::to_string(kMostDots) + " dots", "the names of this file have one at most");
    }
    if (std::string_view("\n,[{=").find(c) != std::string_view::npos) dots_ = 0;
    put();
  }
};

}  // namespace

std::string prepare_toml(std::string_view text, const std::string& path) { return Preparer(text, path).prepare(); }

}  // namespace heed::io
