// What a file of another kind than expected looks like, so that the refusal can say how to convert it.
#pragma once

#include <string>

#include "heed/io/file.h"

namespace heed::io {

struct Looks {
  std::string what;            // "it looks like a zip archive, …"
  std::string as_npy;          // how to make an npy of it; may be empty
  std::string as_safetensors;  // how to make a safetensors file of it; may be empty
};

Looks looks_like(const InputFile& file);

}  // namespace heed::io
