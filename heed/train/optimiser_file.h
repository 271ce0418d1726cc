// An optimiser's state in a safetensors file: its tensors by name, its steps and learning rate as metadata.
#pragma once

#include <string>

#include "heed/train/optimiser.h"

namespace heed {

// Written whole or not at all.
void save_optimiser(const std::string& path, const Optimiser& optimiser);

// An io::FileError if the file is not one of save_optimiser; Optimiser::restore refuses what does not fit.
void load_optimiser(const std::string& path, Optimiser& optimiser);

}  // namespace heed
