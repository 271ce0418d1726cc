// Heed writes UTF-8; where the locale is not UTF-8, this stands between a command and its stream and writes ASCII.
#pragma once

#include <streambuf>
#include <string>
#include <string_view>

namespace heed::cli {

enum class AsciiStyle {
  text,  // known symbols by a word or sign (√ as sqrt, │ as |); others as \u00e9
  json,  // every character as JSON escapes it, so that the document keeps its meaning
};

// A stream buffer that passes ASCII on and replaces the rest. Bytes that are not UTF-8 become \xNN (JSON: \ufffd).
class AsciiBuffer : public std::streambuf {
 public:
  AsciiBuffer(std::streambuf* target, AsciiStyle style) : target_(target), style_(style) {}
  ~AsciiBuffer() override { put_invalid(); }  // a character that was begun and never ended

  AsciiBuffer(const AsciiBuffer&) = delete;
  AsciiBuffer& operator=(const AsciiBuffer&) = delete;

 protected:
  int_type overflow(int_type next) override;
  int sync() override;

 private:
  bool put(std::string_view bytes);
  bool put_invalid();  // what has begun, as bytes that are no character

  std::streambuf* target_;
  AsciiStyle style_;
  std::string begun_;  // the bytes so far of a character of several bytes
  size_t length_ = 0;  // how many it has
};

}  // namespace heed::cli
