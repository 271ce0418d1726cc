#include "heed/io/npy_header.h"

#include <algorithm>
#include <array>
#include <charconv>

#include "heed/io/looks_like.h"

namespace heed::io {
namespace {

constexpr const char* kCastHint = "save it as numbers: numpy.save(FILE, array.astype('float32'))";

// Reads the dictionary {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }: these three keys, in any order.
class HeaderReader {
 public:
  // `text` begins at byte `begin` of the file.
  HeaderReader(const std::string& path, std::string_view text, int64_t begin)
      : path_(path), text_(text), begin_(begin) {}

  void read(StoredArray& stored) {
    expect('{');
    std::array<bool, 3> seen{};
    while (!take('}')) {
      const std::string_view key = string();
      const auto number = static_cast<size_t>(std::find(kKeys.begin(), kKeys.end(), key) - kKeys.begin());
      if (number == kKeys.size()) refuse("the header has the key " + in_quotes(key) + ", which npy has not");
      if (std::exchange(seen[number], true)) refuse("the header has the key " + in_quotes(key) + " twice");
      expect(':');
      if (number == 0) stored.dtype = &descr();
      if (number == 1) stored.first_fastest = boolean();
      if (number == 2) stored.shape = shape();
      if (!take(',') && peek() != '}') refuse("the header has " + found() + " where ',' or '}' was expected");
    }
    for (size_t i = 0; i < kKeys.size(); ++i) {
      if (!seen[i]) refuse("the header lacks the key '" + std::string(kKeys[i]) + "'");
    }
    if (peek() != '\0') refuse("the header has " + found() + " after its end");
  }

 private:
  static constexpr std::array<std::string_view, 3> kKeys = {"descr", "fortran_order", "shape"};

  [[noreturn]] void refuse(const std::string& what, const std::string& hint = "") const {
    throw FileError(path_, {.what = what,
                            .where = "byte " + std::to_string(begin_ + static_cast<int64_t>(at_)),
                            .hint = hint.empty() ? "was it written by numpy.save?" : hint});
  }

  // The next character that is not white space; zero at the end, which the text itself does not contain.
  char peek() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }

  std::string found() { return peek() == '\0' ? "its end" : in_quotes(std::string(1, peek())); }

  bool take(char character) {
    if (peek() != character) return false;
    ++at_;
    return true;
  }

  void expect(char character) {
    if (!take(character)) refuse("the header has " + found() + " where '" + character + "' was expected");
  }

  std::string_view string() {
    const char quote = peek();
    if (quote != '\'' && quote != '"') refuse("the header has " + found() + " where a string was expected");
    const size_t end = text_.find(quote, at_ + 1);
    if (end == std::string_view::npos) refuse("the header has a string without an end");
    const std::string_view result = text_.substr(at_ + 1, end - at_ - 1);
    if (result.find('\\') != std::string_view::npos) refuse("the header has an escaped character in a string");
    at_ = end + 1;
    return result;
  }

  std::string_view word() {
    peek();
    const auto is_part = [](char c) {
      return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
    };
    const auto* end = std::find_if_not(text_.begin() + at_, text_.end(), is_part);
    const auto size = static_cast<size_t>(end - text_.begin()) - at_;
    const std::string_view result = text_.substr(at_, size);
    at_ += size;
    return result;
  }

  bool boolean() {
    const std::string_view value = word();
    if (value != "True" && value != "False") refuse("'fortran_order' is neither True nor False");
    return value == "True";
  }

  // (), (3,), (2, 3)
  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes;
    expect('(');
    while (!take(')')) {
      if (sizes.size() == kMostDimensions) refuse("the shape has more than 64 dimensions");
      sizes.push_back(size());
      if (!take(',') && (peek() != ')' || sizes.size() == 1)) refuse("the shape is not a tuple of whole numbers");
    }
    return sizes;
  }

  // Python 2 wrote long numbers as 3L.
  int64_t size() {
    if (peek() == '-') refuse("the shape has a negative size");
    std::string_view digits = word();
    if (!digits.empty() && digits.back() == 'L') digits.remove_suffix(1);
    int64_t value = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
    if (error == std::errc::result_out_of_range) refuse("the shape has a size that overflows 64 bits");
    if (error != std::errc() || end != digits.data() + digits.size()) {
      refuse("the shape is not a tuple of whole numbers");
    }
    return value;
  }

  // A byte order and a format: '<f4'.
  const Dtype& descr() {
    if (peek() == '[' || peek() == '(') refuse("the array is structured (records with fields), not numbers", kCastHint);
    const std::string_view text = string();
    const std::string shown = in_quotes(text);
    const bool has_order = !text.empty() && std::string_view("<>=|").find(text[0]) != std::string_view::npos;
    const std::string_view format = has_order ? text.substr(1) : text;
    const Dtype* dtype = dtype_of_npy(format);
    if (dtype == nullptr) refuse(why_no_number(format) + " (dtype " + shown + ")", kCastHint);
    if (has_order && text[0] == '>' && dtype->bits > 8) {
      refuse("the numbers are big-endian (dtype " + shown + ")",
             "save them little-endian: numpy.save(FILE, array.astype('<" + std::string(format) + "'))");
    }
    return *dtype;
  }

  static std::string why_no_number(std::string_view format) {
    switch (format.empty() ? '\0' : format[0]) {
      case 'O':
        return "the array holds Python objects, which are never unpickled here";
      case 'U':
      case 'S':
      case 'a':
        return "the array holds strings, not numbers";
      case 'V':
        return "the array holds raw bytes (bf16 arrays are saved like this), not numbers";
      case 'c':
        return "the array holds complex numbers";
      case 'M':
      case 'm':
        return "the array holds times, not numbers";
      default:
        return "the array has a dtype that is not one of f2 f4 f8 b1 i1 i2 i4 i8 u1 u2 u4 u8";
    }
  }

  const std::string& path_;
  std::string_view text_;
  int64_t begin_;
  size_t at_ = 0;
};

// The header's text and where it begins.
struct HeaderText {
  std::string text{};
  int64_t begin = 0;
};

HeaderText read_header_text(const InputFile& file) {
  constexpr int64_t kMostHeader = 1 << 16;  // what numbers need is far below
  const auto refuse = [&](const std::string& what, const std::string& where, const std::string& hint) {
    throw FileError(file.path(), {.what = what, .where = where, .hint = hint});
  };
  const auto refuse_cut = [&] {
    refuse("the file ends within its header", "byte " + std::to_string(file.size()), "copy or save it again");
  };
  const std::string start = file.read(0, std::min<int64_t>(file.size(), 12));
  if (start.size() < 8) refuse_cut();
  const int major = static_cast<unsigned char>(start[6]);
  const int minor = static_cast<unsigned char>(start[7]);
  if (major < 1 || major > 3 || minor != 0) {
    refuse("npy version " + std::to_string(major) + "." + std::to_string(minor) + "; known are 1.0, 2.0 and 3.0",
           "byte 6", "save it with numpy.save");
  }
  HeaderText header{.begin = major == 1 ? 10 : 12};
  if (file.size() < header.begin) refuse_cut();
  int64_t length = 0;
  for (auto i = static_cast<size_t>(header.begin); i-- > 8;)
    length = length * 256 + static_cast<unsigned char>(start[i]);
  if (length > file.size() - header.begin) {
    refuse("the header claims " + std::to_string(length) + " bytes, but the file has only " +
               std::to_string(file.size() - header.begin) + " more",
           "byte 8", "copy or save it again");
  }
  if (length > kMostHeader) {
    refuse("the header claims " + std::to_string(length) + " bytes; at most 65536 are read", "byte 8", "");
  }
  header.text = file.read(header.begin, length);
  const size_t zero = header.text.find('\0');
  if (zero != std::string::npos) {
    refuse("the header has a zero byte", "byte " + std::to_string(header.begin + static_cast<int64_t>(zero)),
           "was it written by numpy.save?");
  }
  return header;
}

void check_size(const InputFile& file, const StoredArray& stored) {
  const auto bytes = byte_count(*stored.dtype, stored.shape);
  const std::string claim = "shape " + to_text(stored.shape) + " of " + std::string(stored.dtype->name);
  if (!bytes) {
    throw FileError(file.path(),
                    {.what = claim + " overflows 64 bits", .hint = "the file is damaged: copy or save it again"});
  }
  const int64_t have = file.size() - stored.offset;
  if (*bytes == have) return;
  const std::string what = claim + " needs " + std::to_string(*bytes) + " bytes, but the file has " +
                           std::to_string(have) + " after its header";
  throw FileError(file.path(), {.what = what,
                                .where = "byte " + std::to_string(stored.offset),
                                .hint = *bytes > have ? "the file is cut off: copy or save it again"
                                                      : "save one array a file, with one numpy.save"});
}

}  // namespace

StoredArray read_npy_header(const InputFile& file) {
  const std::string magic = file.read(0, std::min<int64_t>(file.size(), static_cast<int64_t>(kNpyMagic.size())));
  if (magic != kNpyMagic) {
    const Looks looks = looks_like(file);
    throw FileError(file.path(), {.what = "not an npy file: " + looks.what, .where = "byte 0", .hint = looks.as_npy});
  }
  const HeaderText header = read_header_text(file);
  StoredArray stored;
  HeaderReader(file.path(), header.text, header.begin).read(stored);
  stored.offset = header.begin + static_cast<int64_t>(header.text.size());
  check_size(file, stored);
  return stored;
}

}  // namespace heed::io
