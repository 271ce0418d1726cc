// The bytes of safetensors files, also of files that no library would write.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>

namespace heed::test {

// Eight bytes with the length, then the rest.
inline std::string with_length(uint64_t length, const std::string& rest) {
  std::string bytes(sizeof(length), '\0');
  std::memcpy(bytes.data(), &length, sizeof(length));
  return bytes + rest;
}

inline std::string file_of(const std::string& header, const std::string& data = "") {
  return with_length(header.size(), header + data);
}

// A tensor of the header.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":" + shape + ",\"data_offsets\":" + offsets + "}";
}

}  // namespace heed::test
