// TOML as a plain tree that remembers where everything stands and how each number was written.
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
  std::string text;     // a text's own; a number as it is written: "0.50"
  double number = 0.0;  // may be nan or ±inf
  bool boolean = false;
  std::vector<TomlValue> items;     // of an array
  std::vector<TomlMember> members;  // of a table, in the order of the file

  // The member of that name; null where there is none.
  const TomlValue* find(const std::string& name) const;
};

struct TomlMember {
  std::string name;
  TomlValue value;
};

// "a number", "an array": what a value is, for messages.
std::string describe(const TomlValue& value);

// The table that `text` is. `path` is for messages. Arrays and tables nest at most 8 deep.
TomlValue parse_toml(const std::string& text, const std::string& path);

}  // namespace heed::io
