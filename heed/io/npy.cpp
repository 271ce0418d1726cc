#include "heed/io/npy.h"

#include "heed/core/memory.h"
#include "heed/io/file.h"
#include "heed/io/npy_header.h"

namespace heed::io {
namespace {

// "(2, 3)", "(3,)", "()": a tuple of Python.
std::string tuple_text(const std::vector<int64_t>& shape) {
  std::string text = "(";
  for (const int64_t size : shape) text += std::to_string(size) + ", ";
  if (!shape.empty()) text.pop_back();
  if (shape.size() > 1) text.pop_back();
  return text + ")";
}

// Magic, version, length and dictionary: padded so that the numbers begin at a multiple of 64 bytes.
std::string header_of(const std::vector<int64_t>& shape) {
  constexpr size_t kBefore = 10;
  std::string text = "{'descr': '<f4', 'fortran_order': False, 'shape': " + tuple_text(shape) + ", }";
  text.resize(round_up<size_t>(kBefore + text.size() + 1, 64) - kBefore - 1, ' ');
  text += '\n';
  std::string header(kNpyMagic);
  header += {'\x01', '\x00', static_cast<char>(text.size() & 0xff), static_cast<char>(text.size() >> 8)};
  return header + text;
}

}  // namespace

Array read_npy(const std::string& path) {
  const InputFile file(path);
  return read_stored(file, read_npy_header(file));
}

void write_npy(const std::string& path, const Tensor& values) {
  check_writable("write_npy", values);
  OutputFile file(path);
  file.write(header_of(values.shape()));
  file.write(std::as_bytes(values.values()));
  file.commit();
}

}  // namespace heed::io
