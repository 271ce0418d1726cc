// The forward call behind a walkthrough: the queries shown, and the row states that insight needs. Internal to explain.
#pragma once

#include "heed/explain/attend_case.h"

namespace heed::explain {

// The inputs and results of attention for the queries `rows`. Views point into the run and the case.
struct AttendRun {
  QueryRange rows;
  AttentionInputs inputs;  // q of `rows`; all of k and v
  AttentionOptions options;
  RowStates<const float> states;
  View<const float, 4> heads;  // [B, rows, H, Dv]
  View<const float, 3> out;    // [B, rows, C_out]; null without W_O

  AttendRun(const AttendCase& given, const QueryRange& asked, Trace* trace);
  AttendRun(const AttendRun&) = delete;
  AttendRun& operator=(const AttendRun&) = delete;

 private:
  void run_layer(const AttendCase& given, Trace* trace);
  void run_heads(const AttendCase& given, Trace* trace);

  Tensor x_, heads_, shift_, sum_, out_;
  MultiHeadState state_;
  Arena arena_;
};

}  // namespace heed::explain
