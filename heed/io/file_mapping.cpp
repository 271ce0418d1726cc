#include "heed/io/file_mapping.h"

#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "heed/io/path_text.h"

namespace heed::io {

FileMapping::FileMapping(const InputFile& file) {
  struct stat status {};
  const auto fail_to_map = [&](int error) {
    throw FileError(file.path(),
                    {.what = "cannot map the file into memory: " + system_text(error), .hint = "read it instead"});
  };
  if (::fstat(file.descriptor(), &status) != 0) fail_to_map(errno);
  if (status.st_size < file.size()) {
    throw FileError(file.path(), {.what = "the file became shorter while it was open",
                                  .where = "byte " + std::to_string(status.st_size)});
  }
  if (file.size() == 0) return;  // nothing to map, which mmap would refuse
  const auto size = static_cast<size_t>(file.size());
  void* mapped = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.descriptor(), 0);
  if (mapped == MAP_FAILED) fail_to_map(errno);
  bytes_ = {static_cast<const std::byte*>(mapped), size};
}

FileMapping::~FileMapping() {
  if (!bytes_.empty()) ::munmap(const_cast<std::byte*>(bytes_.data()), bytes_.size());
}

}  // namespace heed::io
