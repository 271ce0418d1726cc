// MappedSafetensors: the f32 tensors of a safetensors file, used in place instead of copied.
#pragma once

#include <algorithm>
#include <memory>
#include <span>
#include <string>

#include "heed/core/view.h"
#include "heed/io/safetensors.h"

namespace heed::io {

class FileMapping;

// Maps the whole file, read-only: pages are loaded when they are first touched, shared between processes, and dropped
// by the system when memory is short. A regular value: copies share the mapping, and spans and views are valid as long
// as any copy lives.
//
// Nobody may shorten or overwrite the file in place meanwhile. A page that is no longer in the file ends the process
// with SIGBUS when it is touched: no user of mmap can prevent that, because the size checked here may change the next
// moment, and a signal handler belongs to the program, not to a library. Files replaced by write_safetensors are safe:
// the mapping keeps the old file. Where others may rewrite the file, use SafetensorsFile::read, which throws instead.
class MappedSafetensors {
 public:
  explicit MappedSafetensors(const std::string& path);

  // Names, shapes, metadata, and read() for the tensors that cannot be used in place.
  const SafetensorsFile& file() const { return file_; }

  // True if the tensor is f32 and aligned for float. Other programs may write files in which it is not.
  bool in_place(const std::string& name) const;

  // All values in row-major order; a FileError if the tensor cannot be used in place. Temporaries have neither values()
  // nor view(): name the file first.
  std::span<const float> values(const std::string& name) const&;
  std::span<const float> values(const std::string& name) const&& = delete;

  // The same as a view of rank N; a FileError if its rank differs.
  template <int N>
  View<const float, N> view(const std::string& name) const& {
    check_rank(name, N);
    Shape<N> shape{};
    std::copy_n(file_.shape(name).begin(), N, shape.begin());
    return {values(name).data(), shape};
  }
  template <int N>
  View<const float, N> view(const std::string& name) const&& = delete;

 private:
  void check_rank(const std::string& name, int rank) const;

  SafetensorsFile file_;
  std::shared_ptr<const FileMapping> mapping_;
};

}  // namespace heed::io
