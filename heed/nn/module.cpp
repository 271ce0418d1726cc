#include "heed/nn/module.h"

namespace heed::nn {

int64_t count(const std::vector<NamedParameter>& parameters) {
  int64_t total = 0;
  for (const NamedParameter& each : parameters) total += each.parameter->count();
  return total;
}

}  // namespace heed::nn
