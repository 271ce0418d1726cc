#include "bench/attention_bench.h"

#include <algorithm>
#include <functional>
#include <memory>

#include "bench/attention_call.h"
#include "bench/layer_call.h"
#include "bench/process.h"
#include "heed/core/error.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

const AttentionCase& case_named(const std::string& name) {
  const auto& cases = attention_cases();
  const auto found = std::ranges::find_if(cases, [&](const AttentionCase& each) { return each.label.name == name; });
  check(found != cases.end(), "bench_attention", "no case is called ", name);
  return *found;
}

// Call is AttentionCall or LayerCall.
template <class Call>
std::function<void()> timed_call(const AttentionCase& each) {
  const auto call = std::make_shared<Call>(each.sizes, each.kind != "forward");
  if (each.kind == "forward") return [call] { call->forward(); };
  if (each.kind == "backward") {
    call->forward();
    return [call] { call->backward(); };
  }
  return [call] {
    call->forward();
    call->backward();
  };
}

std::function<void()> insight_call(const AttentionCase& each) {
  const auto call = std::make_shared<AttentionCall>(each.sizes, false);
  call->forward();
  return [call] { call->insight(); };
}

std::function<void()> call_of(const AttentionCase& each) {
  if (each.kind == "insight") return insight_call(each);
  return each.sizes.width > 0 ? timed_call<LayerCall>(each) : timed_call<AttentionCall>(each);
}

Contender contender_of(const AttentionCase& each, int threads) {
  Contender contender;
  contender.threads = threads;
  contender.flops = attention_flops(each.kind, each.sizes);
  contender.call = call_of(each);
  return contender;
}

Row row_of(const AttentionCase& each, int threads) {
  Row row;
  row.name = each.label.name;
  row.kind = each.kind;
  row.attention = each.sizes;
  row.threads = threads;
  row.isa = isa_name(isa());
  return row;
}

// The growth of the peak resident size over what the caller holds, forward and then backward.
Row measure_memory(const AttentionCase& each, int threads) {
  set_threads(threads);
  AttentionCall call(each.sizes, true);
  Row row = row_of(each, threads);
  row.megabytes = resident_growth_mb([&] {
    call.forward();
    call.backward();
  });
  return row;
}

Row measure_speed(const AttentionCase& each, int threads, Harness& harness) {
  std::vector<Contender> contenders;
  if (!each.base.empty()) contenders.push_back(contender_of(case_named(each.base), each.all_threads ? 1 : threads));
  contenders.push_back(contender_of(each, threads));
  const std::vector<Measurement> measured = harness.measure(contenders);
  Row row = row_of(each, threads);
  row.measured = measured.back();
  if (!each.base.empty()) {
    row.base = each.base;
    row.of_base = measured.back().of_first;
  }
  return row;
}

}  // namespace

void bench_attention(const std::vector<AttentionCase>& cases, const BenchOptions& options, Report& report) {
  Harness harness(options.harness);
  for (const AttentionCase& each : cases) {
    const int threads = each.all_threads ? options.all_threads : options.threads;
    report.add(each.kind == "memory" ? measure_memory(each, threads) : measure_speed(each, threads, harness));
  }
}

}  // namespace heed::bench
