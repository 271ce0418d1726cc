#include "tests/support/golden_file.h"

#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "heed/io/safetensors_header.h"
#include "tests/support/golden.h"

namespace heed::test {
namespace {

using nlohmann::json;

// The elements of a stored tensor, of type T in the file.
template <class T>
std::vector<T> elements(const io::SafetensorsContents& contents, const io::StoredArray& stored) {
  const std::string bytes = contents.file.read(stored.offset, io::byte_count(*stored.dtype, stored.shape).value());
  std::vector<T> result(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(result.data(), bytes.data(), bytes.size());
  return result;
}

Doubles read_doubles(const io::SafetensorsContents& contents, const io::StoredArray& stored) {
  if (stored.dtype->name == "f64") return {stored.shape, elements<double>(contents, stored)};
  const std::vector<float> values = elements<float>(contents, stored);
  return {stored.shape, {values.begin(), values.end()}};
}

TensorOf<int64_t> read_ids(const io::SafetensorsContents& contents, const io::StoredArray& stored) {
  TensorOf<int64_t> result(stored.shape);
  const std::vector<int64_t> values = elements<int64_t>(contents, stored);
  std::copy(values.begin(), values.end(), result.values().begin());
  return result;
}

// Null where there is no such path.
json find_option(const std::string& options, const std::string& path) {
  const json all = json::parse(options);
  const json::json_pointer pointer("/" + path);
  return all.contains(pointer) ? all.at(pointer) : json();
}

bool fits(const json& value, const bool* /*kind*/) { return value.is_boolean(); }
bool fits(const json& value, const int64_t* /*kind*/) { return value.is_number_integer(); }
bool fits(const json& value, const double* /*kind*/) { return value.is_number(); }
bool fits(const json& value, const std::string* /*kind*/) { return value.is_string(); }
bool fits(const json& value, const std::vector<int64_t>* /*kind*/) {
  return value.is_array() &&
         std::all_of(value.begin(), value.end(), [](const json& each) { return each.is_number_integer(); });
}

}  // namespace

std::vector<std::string> NnGolden::names(const std::string& prefix) const {
  std::vector<std::string> result;
  for (const std::string& name : order_) {
    if (name.starts_with(prefix)) result.push_back(name.substr(prefix.size()));
  }
  return result;
}

const Doubles& NnGolden::doubles(const std::string& tensor) const {
  const auto found = numbers_.find(tensor);
  check(found != numbers_.end(), "NnGolden::doubles", file_, ", case ", name_, " has no f64 or f32 named ", tensor);
  return found->second;
}

Tensor NnGolden::tensor(const std::string& tensor) const {
  const Doubles& from = doubles(tensor);
  Tensor result(from.shape);
  std::transform(from.values.begin(), from.values.end(), result.values().begin(),
                 [](double value) { return static_cast<float>(value); });
  return result;
}

const TensorOf<int64_t>& NnGolden::ids(const std::string& tensor) const {
  const auto found = ids_.find(tensor);
  check(found != ids_.end(), "NnGolden::ids", file_, ", case ", name_, " has no i64 named ", tensor);
  return found->second;
}

bool NnGolden::has_option(const std::string& path) const { return !find_option(options_, path).is_null(); }

template <class T>
T NnGolden::option(const std::string& path) const {
  const json value = find_option(options_, path);
  check(fits(value, static_cast<const T*>(nullptr)), "NnGolden::option", file_, ", case ", name_, " has ", value.dump(),
        " at ", path, "; its options are ", options_);
  return value.get<T>();
}

template bool NnGolden::option(const std::string& path) const;
template int64_t NnGolden::option(const std::string& path) const;
template double NnGolden::option(const std::string& path) const;
template std::string NnGolden::option(const std::string& path) const;
template std::vector<int64_t> NnGolden::option(const std::string& path) const;

std::vector<NnGolden> load_nn_goldens(const std::string& name) {
  const std::string path = golden_path("nn/" + name + ".safetensors");
  const io::SafetensorsContents contents = io::read_safetensors_header(path);
  std::vector<NnGolden> result;
  for (const std::string& full : contents.names) {
    const size_t slash = full.find('/');
    const std::string golden = full.substr(0, slash);
    check(slash != std::string::npos && contents.metadata.contains(golden), "load_nn_goldens", path, " has ", full,
          ", which is of no case; expected CASE/KIND/NAME");
    if (result.empty() || result.back().name_ != golden) {
      NnGolden& added = result.emplace_back();
      added.name_ = golden;
      added.file_ = path;
      added.options_ = contents.metadata.at(golden);
    }
    const std::string tensor = full.substr(slash + 1);
    const io::StoredArray& stored = contents.tensors.at(full);
    const std::string_view dtype = stored.dtype->name;
    check(dtype == "f64" || dtype == "f32" || dtype == "i64", "load_nn_goldens", path, " has ", full, " in ", dtype,
          "; expected f64, f32 or i64");
    result.back().order_.push_back(tensor);
    if (dtype == "i64") {
      result.back().ids_.emplace(tensor, read_ids(contents, stored));
    } else {
      result.back().numbers_.emplace(tensor, read_doubles(contents, stored));
    }
  }
  return result;
}

}  // namespace heed::test
