// Runs a test on every instruction set that the machine has.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "heed/simd/isa.h"

namespace heed::test {

// body() with each instruction set forced in turn; the one in use before is in use again afterwards.
template <class Body>
void on_every_isa(Body body) {
  struct Restore {
    Isa before = isa();
    ~Restore() { set_isa(before); }
  } restore;
  for (const Isa each : supported_isas()) {
    SCOPED_TRACE("isa " + std::string(isa_name(each)));
    set_isa(each);
    body();
  }
}

}  // namespace heed::test
