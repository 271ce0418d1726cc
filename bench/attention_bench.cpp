#include "bench/attention_bench.h"

#include <algorithm>
#include <memory>

#include "bench/attention_call.h"
#include "heed/core/error.h"
#include "heed/simd/isa.h"

namespace heed::bench {
namespace {

const AttentionCase& case_named(const std::string& name) {
  const auto& cases = attention_cases();
  const auto found = std::ranges::find(cases, name, &AttentionCase::name);
  check(found != cases.end(), "bench_attention", "no case is called ", name);
  return *found;
}

Contender contender_of(const AttentionCase& each, int threads) {
  const auto call = std::make_shared<AttentionCall>(each.sizes);
  Contender contender;
  contender.threads = threads;
  contender.flops = attention_flops(each.kind, each.sizes);
  contender.call = [call] { call->forward(); };
  return contender;
}

Row row_of(const AttentionCase& each, int threads, const Measurement& measured) {
  Row row;
  row.name = each.name;
  row.kind = each.kind;
  row.attention = each.sizes;
  row.threads = threads;
  row.isa = isa_name(isa());
  row.measured = measured;
  return row;
}

}  // namespace

void bench_attention(const std::vector<AttentionCase>& cases, const AttentionBenchOptions& options, Report& report) {
  Harness harness(options.harness);
  for (const AttentionCase& each : cases) {
    const int threads = each.all_threads ? options.all_threads : options.threads;
    std::vector<Contender> contenders;
    if (!each.base.empty()) {
      contenders.push_back(contender_of(case_named(each.base), each.all_threads ? 1 : threads));
    }
    contenders.push_back(contender_of(each, threads));
    const std::vector<Measurement> measured = harness.measure(contenders);
    Row row = row_of(each, threads, measured.back());
    if (!each.base.empty()) {
      row.base = each.base;
      row.of_base = measured.back().of_first;
    }
    report.add(row);
  }
}

}  // namespace heed::bench
