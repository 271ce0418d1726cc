#include "heed/io/mapped_safetensors.h"

#include "heed/io/file_mapping.h"
#include "heed/io/safetensors_header.h"

namespace heed::io {
namespace {

// The mapping begins on a page, so an offset in the file is aligned if the address is.
bool is_aligned(const StoredArray& tensor) { return tensor.offset % static_cast<int64_t>(alignof(float)) == 0; }

bool is_f32(const StoredArray& tensor) { return tensor.dtype->name == "f32"; }

}  // namespace

MappedSafetensors::MappedSafetensors(const std::string& path)
    : file_(path), mapping_(std::make_shared<const FileMapping>(file_.contents_->file)) {}

bool MappedSafetensors::in_place(const std::string& name) const {
  const StoredArray& tensor = file_.contents_->find(name);
  return is_f32(tensor) && is_aligned(tensor);
}

std::span<const float> MappedSafetensors::values(const std::string& name) const& {
  StoredArray tensor = file_.contents_->find(name);
  tensor.where = "tensor " + in_quotes(name);
  check_empty(file_.contents_->file, tensor);
  if (!is_f32(tensor)) {
    throw FileError(file_.path(),
                    {.what = "the tensor is " + std::string(tensor.dtype->name) + "; only f32 can be used in place",
                     .where = tensor.where,
                     .hint = "file().read() converts it"});
  }
  if (!is_aligned(tensor)) {
    throw FileError(file_.path(), {.what = "the tensor begins at byte " + std::to_string(tensor.offset) +
                                           ", not at a multiple of 4; only aligned values can be used in place",
                                   .where = tensor.where,
                                   .hint = "file().read() copies it; write_safetensors aligns it"});
  }
  const std::byte* begin = mapping_->bytes().data() + tensor.offset;
  return {reinterpret_cast<const float*>(begin), static_cast<size_t>(element_count(tensor.shape))};
}

void MappedSafetensors::check_rank(const std::string& name, int rank) const {
  const std::vector<int64_t>& shape = file_.shape(name);
  if (shape.size() == static_cast<size_t>(rank)) return;
  throw FileError(file_.path(), {.what = "a tensor of rank " + std::to_string(rank) +
                                         " was expected, but its shape is " + to_text(shape),
                                 .where = "tensor " + in_quotes(name)});
}

}  // namespace heed::io
