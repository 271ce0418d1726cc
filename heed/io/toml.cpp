#include "heed/io/toml.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <string_view>

#include "heed/io/toml_prepare.h"

namespace {
// Some texts ("[#") violate the parser's internal assertions, and without assertions its behaviour is undefined. So
// assertions are enabled in every build and throw this.
struct ParserGaveUp {};
[[noreturn]] void give_up() { throw ParserGaveUp{}; }
}  // namespace

// Header-only, without what is not needed here. Nesting is bounded: the parser calls itself for each level.
#undef NDEBUG
#define TOML_ASSERT(rule) ((rule) ? void() : give_up())
#define TOML_HEADER_ONLY 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 8
#include <toml++/toml.h>

namespace heed::io {
namespace {

// The text by lines, to look up a number at the position that the parser reports.
class Lines {
 public:
  explicit Lines(std::string_view text) {
    while (!text.empty()) {
      const size_t end = std::min(text.find('\n'), text.size());
      lines_.push_back(text.substr(0, end));
      text.remove_prefix(std::min(end + 1, text.size()));
    }
  }

  // From line and column (both from 1) to the end of the number.
  std::string number_at(toml::source_position at) const {
    if (at.line == 0 || at.line > lines_.size() || at.column == 0) return "";
    const std::string_view line = lines_[at.line - 1];
    const std::string_view rest = line.substr(std::min<size_t>(at.column - 1, line.size()));
    return std::string(rest.substr(0, rest.find_first_of(",]} \t\r#")));
  }

 private:
  std::vector<std::string_view> lines_;
};

// True if `text` is the number. Hexadecimal, octal and binary numbers are not decimal and are accepted unchecked.
bool is_number(std::string text, double number) {
  if (text.empty()) return false;
  text.erase(std::remove(text.begin(), text.end(), '_'), text.end());
  if (text.front() == '+') text.erase(0, 1);
  if (text.size() > 1 && text[0] == '0' && std::string_view("xob").find(text[1]) != std::string_view::npos) return true;
  double parsed = 0.0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error == std::errc::result_out_of_range) return true;
  if (error != std::errc() || end != text.data() + text.size()) return false;
  return parsed == number || (std::isnan(parsed) && std::isnan(number));
}

class Converter {
 public:
  Converter(std::string_view text, const std::string& path) : lines_(text), path_(path) {}

  TomlValue convert(const toml::node& node) const {
    TomlValue value;
    value.line = static_cast<int>(node.source().begin.line);
    if (const auto* table = node.as_table()) {
      value.members = members_of(*table);
    } else if (const auto* array = node.as_array()) {
      value.kind = TomlValue::Kind::array;
      value.items.reserve(array->size());
      for (const toml::node& each : *array) value.items.push_back(convert(each));
    } else if (const auto* text = node.as_string()) {
      value.kind = TomlValue::Kind::text;
      value.text = text->get();
    } else if (const auto* boolean = node.as_boolean()) {
      value.kind = TomlValue::Kind::boolean;
      value.boolean = boolean->get();
    } else if (node.is_number()) {
      value.kind = TomlValue::Kind::number;
      value.number = *node.value<double>();
      value.text = number_text(node, value);
    } else {
      value.kind = TomlValue::Kind::date;
    }
    return value;
  }

 private:
  Lines lines_;
  const std::string& path_;

  std::string number_text(const toml::node& node, const TomlValue& value) const {
    std::string text = lines_.number_at(node.source().begin);
    if (is_number(text, value.number)) return text;
    throw FileError(path_, {"a number could not be found in the text", "", "put it on a line of its own", value.line});
  }

  std::vector<TomlMember> members_of(const toml::table& table) const {
    struct Placed {
      toml::source_position at;
      TomlMember member;
    };
    std::vector<Placed> placed;
    for (const auto& [key, node] : table) {
      placed.push_back({key.source().begin, {std::string(key.str()), convert(node)}});
      placed.back().member.value.line = static_cast<int>(key.source().begin.line);
    }
    std::stable_sort(placed.begin(), placed.end(), [](const Placed& a, const Placed& b) { return a.at < b.at; });
    std::vector<TomlMember> members;
    members.reserve(placed.size());
    for (Placed& each : placed) members.push_back(std::move(each.member));
    return members;
  }
};

bool gives_up(std::string_view text) {
  try {
    static_cast<void>(toml::parse(text));
  } catch (const toml::parse_error&) {
  } catch (const ParserGaveUp&) {
    return true;
  }
  return false;
}

// The line at which the parser gives up. It reads from front to back, so it does the same where the lines behind are
// missing: the fewest lines that it gives up on end with that line.
int line_of_giving_up(std::string_view text) {
  std::vector<size_t> ends;  // of each line
  for (size_t end = 0; end < text.size(); ++end) {
    end = std::min(text.find('\n', end), text.size());
    ends.push_back(end);
  }
  const auto first =
      std::partition_point(ends.begin(), ends.end(), [&](size_t end) { return !gives_up(text.substr(0, end)); });
  return static_cast<int>(first - ends.begin()) + 1;
}

// The parser's complaint. It may quote the file at any length: one line is enough.
FileProblem problem_of(const toml::parse_error& error) {
  constexpr size_t kMostText = 200;
  const std::string_view text = error.description();
  const auto line = static_cast<int>(error.source().begin.line);
  if (text.find("nested value depth") != std::string_view::npos) {
    return {"arrays or tables nested more than 8 deep", "", "", line};
  }
  size_t end = std::min(text.size(), kMostText);
  while (end < text.size() && end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return {"not TOML: " + std::string(text.substr(0, end)) + (end < text.size() ? "…" : ""), "",
          "numbers have a digit before and behind the point (0.5), texts stand in quotes", line};
}

}  // namespace

const TomlValue* TomlValue::find(const std::string& name) const {
  for (const TomlMember& each : members) {
    if (each.name == name) return &each.value;
  }
  return nullptr;
}

std::string describe(const TomlValue& value) {
  switch (value.kind) {
    case TomlValue::Kind::text:
      return "a text";
    case TomlValue::Kind::number:
      return "a number";
    case TomlValue::Kind::boolean:
      return "true or false";
    case TomlValue::Kind::array:
      return "an array";
    case TomlValue::Kind::table:
      return "a table";
    default:
      return "a date or time";
  }
}

TomlValue parse_toml(const std::string& text, const std::string& path) {
  constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
  std::string_view content = text;
  if (content.substr(0, kByteOrderMark.size()) == kByteOrderMark) content.remove_prefix(kByteOrderMark.size());
  const std::string ascii = prepare_toml(content, path);
  try {
    return Converter(ascii, path).convert(toml::parse(std::string_view(ascii)));
  } catch (const toml::parse_error& error) {
    throw FileError(path, problem_of(error));
  } catch (const ParserGaveUp&) {
    throw FileError(path, {"not TOML", "", "names of tables stand in brackets, [claimed], texts in quotes",
                           line_of_giving_up(ascii)});
  }
}

}  // namespace heed::io
