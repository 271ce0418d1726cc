#include "tests/support/golden.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include "heed/core/error.h"

namespace heed::test {
namespace {

class Reader {
 public:
  explicit Reader(const std::string& file) : path_(golden_path(file)), in_(path_) {
    check(in_.good(), "load_goldens", "cannot read ", path_);
  }

  std::vector<GoldenCase> cases() {
    std::vector<GoldenCase> result;
    std::string kind;
    while (in_ >> kind) {
      if (kind[0] == '#') {
        rest_of_line();
      } else if (kind == "case") {
        result.emplace_back().name = word();
      } else {
        check(!result.empty(), "load_goldens", path_, " has '", kind, "' before its first case");
        read_into(result.back(), kind);
      }
    }
    return result;
  }

 private:
  void read_into(GoldenCase& golden, const std::string& kind) {
    const std::string name = word();
    if (kind == "text") {
      golden.texts[name] = rest_of_line();
    } else if (kind == "tensor") {
      golden.tensors[name] = tensor();
    } else {
      check(kind == "bits", "load_goldens", path_, " has '", kind, "'; expected case, text, tensor or bits");
      golden.bits[name] = bits();
    }
  }

  Tensor tensor() {
    Tensor result(shape());
    for (float& value : result.values()) value = number(word());
    return result;
  }

  // istream reads no hexadecimal floats, and stof refuses denormals.
  float number(const std::string& text) const {
    char* end = nullptr;
    const float value = std::strtof(text.c_str(), &end);
    check(*end == '\0', "load_goldens", path_, " has '", text, "' where a number was expected");
    return value;
  }

  Bits bits() {
    Bits result{shape(), nullptr};
    const int64_t count = element_count(result.shape);
    result.values = std::make_unique<bool[]>(static_cast<size_t>(count));
    for (int64_t i = 0; i < count; ++i) {
      char bit = 0;
      in_ >> bit;
      check(bit == '0' || bit == '1', "load_goldens", path_, " has a bit that is neither 0 nor 1");
      result.values[static_cast<size_t>(i)] = bit == '1';
    }
    return result;
  }

  std::vector<int64_t> shape() {
    std::vector<int64_t> sizes(std::stoul(word()));
    for (int64_t& size : sizes) size = std::stoll(word());
    return sizes;
  }

  std::string word() {
    std::string text;
    check(static_cast<bool>(in_ >> text), "load_goldens", path_, " ends too early");
    return text;
  }

  std::string rest_of_line() {
    std::string line;
    std::getline(in_ >> std::ws, line);
    return line;
  }

  std::string path_;
  std::ifstream in_;
};

}  // namespace

std::string golden_path(const std::string& file) {
  std::string path = HEED_GOLDEN_DIRECTORY "/";
  path += file;
  return path;
}

std::vector<GoldenCase> load_goldens(const std::string& file) { return Reader(file).cases(); }

}  // namespace heed::test
