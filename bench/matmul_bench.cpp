#include "bench/matmul_bench.h"

#include <memory>

#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/ops/matmul.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"
#include "heed/simd/probe.h"

namespace heed::bench {
namespace {

struct Sizes {
  int64_t m, n, k;
};

MatmulCase make_case(const Sizes& sizes, bool packed, bool bf16, bool all_threads) {
  MatmulCase result;
  result.sizes = {sizes.m, sizes.n, sizes.k, packed};
  result.bf16 = bf16;
  result.all_threads = all_threads;
  result.label.name = "matmul-" + std::to_string(sizes.m) + "x" + std::to_string(sizes.n) + "x" +
                      std::to_string(sizes.k) + (packed ? "-packed" : "") + (bf16 ? "-bf16" : "") +
                      (all_threads ? "-threads" : "");
  result.label.group = all_threads ? "threads" : bf16 ? "bf16" : packed ? "packed" : "plain";
  result.label.slow = sizes.m >= 2048;
  return result;
}

std::vector<MatmulCase> make_cases() {
  std::vector<MatmulCase> cases;
  for (const bool all_threads : {false, true}) {
    for (const Sizes sizes : {Sizes{512, 512, 512}, Sizes{512, 1536, 512}, Sizes{2048, 2048, 2048}, Sizes{64, 64, 64},
                              Sizes{4, 1024, 1024}, Sizes{1, 1024, 1024}}) {
      for (const bool packed : {false, true}) cases.push_back(make_case(sizes, packed, false, all_threads));
    }
    for (const Sizes sizes : {Sizes{512, 1536, 512}, Sizes{8, 1024, 1024}, Sizes{4, 1024, 1024}, Sizes{1, 1024, 1024},
                              Sizes{1, 4096, 4096}}) {
      cases.push_back(make_case(sizes, true, true, all_threads));
    }
  }
  return cases;
}

// The matrices of a case and the calls that are timed.
struct MatmulCall {
  MatmulCall(const MatmulSizes& sizes, bool bf16)
      : a({sizes.m, sizes.k}), b({sizes.k, sizes.n}), c({sizes.m, sizes.n}) {
    Rng(1).fill_normal(a.values());
    Rng(2).fill_normal(b.values());
    if (sizes.packed) packed = PackedMatrix(std::as_const(b).view<2>());
    if (bf16) packed_bf16 = PackedMatrix(std::as_const(b).view<2>(), WeightStorage::bf16);
    options.arena = &arena;
  }

  void plain() { matmul(std::as_const(a).view<2>(), std::as_const(b).view<2>(), c.view<2>(), options); }
  void with(const PackedMatrix& weight) { matmul(std::as_const(a).view<2>(), weight, c.view<2>(), options); }
  void with(const OpenBlas& openblas) {
    openblas.matmul(std::as_const(a).view<2>(), std::as_const(b).view<2>(), c.view<2>());
  }
  // Reads b, or its bf16, once and does nothing with it.
  void read() const {
    const int64_t parts = threads();
    const bool bf16 = packed_bf16.bf16_data() != nullptr;
    const float* from = bf16 ? reinterpret_cast<const float*>(packed_bf16.bf16_data()) : b.values().data();
    const int64_t part = (bf16 ? b.count() / 2 : b.count()) / parts;
    parallel_for(parts, [&](int64_t i, int) { probe_read(from + i * part, part, 1); });
  }

  Tensor a, b, c;
  PackedMatrix packed, packed_bf16;
  Arena arena;
  MatmulOptions options;
};

// What the case is compared with: the first contender.
void add_peer(const MatmulCase& each, const std::shared_ptr<MatmulCall>& call, const Contender& ours,
              const std::optional<OpenBlas>& openblas, std::vector<Contender>& contenders) {
  if (!each.bf16 && !openblas) return;
  contenders.push_back(ours);
  if (each.bf16) {
    contenders.back().call = [call] { call->with(call->packed); };
  } else {
    openblas->set_threads(ours.threads);
    contenders.back().call = [call, openblas] { call->with(*openblas); };
  }
}

Row measure(const MatmulCase& each, int threads, const std::optional<OpenBlas>& openblas, Harness& harness) {
  const MatmulSizes& sizes = each.sizes;
  const auto call = std::make_shared<MatmulCall>(sizes, each.bf16);
  Contender ours;
  ours.threads = threads;
  ours.flops = 2.0 * static_cast<double>(sizes.m * sizes.n * sizes.k);
  const PackedMatrix& weight = each.bf16 ? call->packed_bf16 : call->packed;
  ours.call = [call, &weight, packed = sizes.packed] { packed ? call->with(weight) : call->plain(); };
  std::vector<Contender> contenders;
  add_peer(each, call, ours, openblas, contenders);
  // One row reads the whole matrix for two operations an element: a plain read of it is the limit.
  const bool reads = sizes.m == 1;
  if (reads) {
    ours.bytes = (each.bf16 ? 2.0 : 4.0) * static_cast<double>(sizes.k * sizes.n);
    Contender plain_read = ours;
    plain_read.flops = 0;
    plain_read.call = [call] { call->read(); };
    contenders.push_back(plain_read);
  }
  contenders.push_back(ours);
  const std::vector<Measurement> measured = harness.measure(contenders);

  Row row;
  row.name = each.label.name;
  row.kind = "matmul";
  row.dtype = each.bf16 ? "bf16" : "f32";
  row.matmul = sizes;
  row.threads = threads;
  row.isa = isa_name(isa());
  row.measured = measured.back();
  if (each.bf16) {
    row.base = "packed f32";
    row.of_base = measured.back().of_first;
  } else if (openblas) {
    row.of_openblas = measured.back().of_first;
  }
  if (reads) {
    row.read_gbps = measured[measured.size() - 2].gbps;
    row.of_read = measured.back().gbps / *row.read_gbps;
  }
  return row;
}

}  // namespace

const std::vector<MatmulCase>& matmul_cases() {
  static const std::vector<MatmulCase> cases = make_cases();
  return cases;
}

void bench_matmul(const std::vector<MatmulCase>& cases, const BenchOptions& options,
                  const std::optional<OpenBlas>& openblas, Report& report) {
  Harness harness(options.harness);
  for (const MatmulCase& each : cases) {
    report.add(measure(each, each.all_threads ? options.all_threads : options.threads, openblas, harness));
  }
}

}  // namespace heed::bench
