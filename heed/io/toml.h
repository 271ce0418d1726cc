// TOML as a plain tree that keeps the line of every value and the spelling of every number.
#pragma once

#include <string>
#include <vector>

#include "heed/io/file_error.h"

namespace heed::io {

struct TomlMember;

struct TomlValue {
  enum class Kind { text, number, boolean, array, table, date };

  Kind kind = Kind::table;
  int line = 0;         // from 1
  std::string text;     // the string's value; for a number, its spelling: "0.50"
  double number = 0.0;  // may be nan or ±inf
  bool boolean = false;
  std::vector<TomlValue> items;     // of an array
  std::vector<TomlMember> members;  // of a table, in the order of the file

  // The member with that name, or null.
  const TomlValue* find(const std::string& name) const;
};

struct TomlMember {
  std::string name;
  TomlValue value;
};

// The kind of a value for messages: "a number", "an array".
std::string describe(const TomlValue& value);

// Parses `text` as a table. `path` is for messages. Arrays and tables nest at most 8 deep.
TomlValue parse_toml(const std::string& text, const std::string& path);

}  // namespace heed::io
