#include "cli/ascii.h"

#include <cstdint>
#include <map>

namespace heed::cli {
namespace {

// Bytes of the character that begins with this one; 0 where none does.
size_t length_from(unsigned char first) {
  if (first >= 0xC2 && first <= 0xDF) return 2;
  if (first >= 0xE0 && first <= 0xEF) return 3;
  if (first >= 0xF0 && first <= 0xF4) return 4;
  return 0;
}

uint32_t code_point(std::string_view bytes) {
  const auto first = static_cast<unsigned char>(bytes[0]);
  uint32_t code = first & (0xFFU >> (bytes.size() + 1));
  for (const char byte : bytes.substr(1)) code = (code << 6) | (static_cast<unsigned char>(byte) & 0x3FU);
  return code;
}

std::string hex(uint32_t value, int digits) {
  std::string text;
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) text += "0123456789abcdef"[(value >> shift) & 15U];
  return text;
}

// \u00e9; two of them for what JSON writes as a pair.
std::string escaped(uint32_t code) {
  if (code < 0x10000) return "\\u" + hex(code, 4);
  const uint32_t above = code - 0x10000;
  return "\\u" + hex(0xD800 + (above >> 10), 4) + "\\u" + hex(0xDC00 + (above & 0x3FFU), 4);
}

// The symbols that Heed's own texts use.
std::string_view in_ascii(std::string_view symbol) {
  static const std::map<std::string_view, std::string_view> known{
      {"√", "sqrt "}, {"·", "*"},   {"×", "x"},     {"−", "-"},   {"–", "-"},   {"—", "-"},   {"…", "..."},
      {"≤", "<="},    {"≥", ">="},  {"≠", "!="},    {"≈", "~"},   {"±", "+-"},  {"∞", "inf"}, {"→", "->"},
      {"←", "<-"},    {"↑", "^"},   {"↓", "v"},     {"ᵀ", "^T"},  {"²", "^2"},  {"³", "^3"},  {"₀", "0"},
      {"₁", "1"},     {"₂", "2"},   {"ₖ", "_k"},    {"ᵢ", "_i"},  {"ⱼ", "_j"},  {"Σ", "sum"}, {"∑", "sum"},
      {"σ", "sigma"}, {"τ", "tau"}, {"α", "alpha"}, {"ε", "eps"}, {"∂", "d"},   {"µ", "u"},   {"μ", "u"},
      {"°", "deg"},   {"✓", "ok"},  {"✗", "x"},     {"•", "*"},   {"⋯", "..."}, {"⋮", ":"},   {"⋱", "..."},
      {"│", "|"},     {"─", "-"},   {"┌", "+"},     {"┐", "+"},   {"└", "+"},   {"┘", "+"},   {"├", "+"},
      {"┤", "+"},     {"┬", "+"},   {"┴", "+"},     {"┼", "+"},   {"═", "="},   {"║", "|"},   {"░", "."},
      {"▒", ":"},     {"▓", "#"},   {"█", "#"},     {"“", "\""},  {"”", "\""},  {"‘", "'"},   {"’", "'"},
  };
  const auto found = known.find(symbol);
  return found == known.end() ? std::string_view() : found->second;
}

}  // namespace

bool AsciiBuffer::put(std::string_view bytes) {
  const auto size = static_cast<std::streamsize>(bytes.size());
  return target_->sputn(bytes.data(), size) == size;
}

bool AsciiBuffer::put_invalid() {
  bool written = true;
  for (const char byte : begun_) {
    written = put(style_ == AsciiStyle::json ? "\\ufffd" : "\\x" + hex(static_cast<unsigned char>(byte), 2)) && written;
  }
  begun_.clear();
  return written;
}

AsciiBuffer::int_type AsciiBuffer::overflow(int_type next) {
  if (traits_type::eq_int_type(next, traits_type::eof())) return traits_type::not_eof(next);
  const char letter = traits_type::to_char_type(next);
  const auto byte = static_cast<unsigned char>(letter);
  bool written = true;
  const bool continues = (byte & 0xC0) == 0x80;
  if (!begun_.empty() && !continues) written = put_invalid();
  if (byte < 0x80) {
    written = put({&letter, 1}) && written;
  } else {
    if (begun_.empty()) length_ = continues ? 0 : length_from(byte);
    begun_ += letter;
    if (length_ == 0) {
      written = put_invalid() && written;
    } else if (begun_.size() == length_) {
      const std::string_view known = style_ == AsciiStyle::text ? in_ascii(begun_) : std::string_view();
      written = put(known.empty() ? escaped(code_point(begun_)) : std::string(known)) && written;
      begun_.clear();
    }
  }
  return written ? next : traits_type::eof();
}

int AsciiBuffer::sync() { return target_->pubsync(); }

}  // namespace heed::cli
