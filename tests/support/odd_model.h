// A model of parameters whose sizes are 0, 1, odd, and larger than a piece of work; for tests of optimisers.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "heed/autograd/parameter.h"
#include "heed/core/rng.h"
#include "heed/nn/module.h"

namespace heed::test {

struct OddModel {
  Parameter weight{Dims{181, 131}};
  Parameter bias{Dims{131}};
  Parameter empty{Dims{0, 4}};
  Parameter number{Dims{1}};
  Parameter scale{Dims{5, 11}};

  explicit OddModel(uint64_t seed = 1) {
    for (const nn::NamedParameter& each : nn::parameters(*this)) Rng(seed++).fill_normal(each.parameter->values());
  }

  void parts(auto&& visit) {
    visit("weight", weight), visit("bias", bias), visit("empty", empty), visit("number", number), visit("scale", scale);
  }

  // What a backward would add.
  void draw_gradients(uint64_t seed, float deviation = 1.0F) {
    for (const nn::NamedParameter& each : nn::parameters(*this)) {
      Rng(1000 + seed++).fill_normal(each.parameter->gradient(), deviation);
    }
  }

  // All values, one parameter after the other.
  std::vector<float> values() {
    std::vector<float> all;
    for (const nn::NamedParameter& each : nn::parameters(*this)) {
      all.insert(all.end(), each.parameter->values().begin(), each.parameter->values().end());
    }
    return all;
  }
  std::vector<float> gradients() {
    std::vector<float> all;
    for (const nn::NamedParameter& each : nn::parameters(*this)) {
      all.insert(all.end(), each.parameter->gradient().begin(), each.parameter->gradient().end());
    }
    return all;
  }
};

}  // namespace heed::test
