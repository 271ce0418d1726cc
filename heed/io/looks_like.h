// Guesses the type of a file that is not of the expected kind, so that the error can say how to convert it.
#pragma once

#include <string>

#include "heed/io/file.h"

namespace heed::io {

struct Looks {
  std::string what;            // "it looks like a zip archive, …"
  std::string as_npy;          // how to convert it to npy; may be empty
  std::string as_safetensors;  // how to convert it to safetensors; may be empty
};

Looks looks_like(const InputFile& file);

}  // namespace heed::io
