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

std::vector<MatmulCase> make_cases() {
  struct Sizes {
    int64_t m, n, k;
  };
  std::vector<MatmulCase> cases;
  for (const bool all_threads : {false, true}) {
    for (const Sizes sizes : {Sizes{512, 512, 512}, Sizes{512, 1536, 512}, Sizes{2048, 2048, 2048}, Sizes{64, 64, 64},
                              Sizes{4, 1024, 1024}, Sizes{1, 1024, 1024}}) {
      for (const bool packed : {false, true}) {
        MatmulCase each;
        each.sizes = {sizes.m, sizes.n, sizes.k, packed};
        each.all_threads = all_threads;
        each.label.name = "matmul-" + std::to_string(sizes.m) + "x" + std::to_string(sizes.n) + "x" +
                          std::to_string(sizes.k) + (packed ? "-packed" : "") + (all_threads ? "-threads" : "");
        each.label.group = all_threads ? "threads" : packed ? "packed" : "plain";
        each.label.slow = sizes.m >= 2048;
        cases.push_back(each);
      }
    }
  }
  return cases;
}

// The matrices of a case and the calls that are timed.
struct MatmulCall {
  explicit MatmulCall(const MatmulSizes& sizes) : a({sizes.m, sizes.k}), b({sizes.k, sizes.n}), c({sizes.m, sizes.n}) {
    Rng(1).fill_normal(a.values());
    Rng(2).fill_normal(b.values());
    if (sizes.packed) packed = PackedMatrix(std::as_const(b).view<2>());
    options.workspace = &workspace;
  }

  void plain() { matmul(std::as_const(a).view<2>(), std::as_const(b).view<2>(), c.view<2>(), options); }
  void with_packed() { matmul(std::as_const(a).view<2>(), packed, c.view<2>(), options); }
  void with(const OpenBlas& openblas) {
    openblas.matmul(std::as_const(a).view<2>(), std::as_const(b).view<2>(), c.view<2>());
  }
  // Reads b once and does nothing with it.
  void read() const {
    const int64_t parts = threads();
    const int64_t part = b.count() / parts;
    parallel_for(parts, [&](int64_t i, int) { probe_read(b.values().data() + i * part, part, 1); });
  }

  Tensor a, b, c;
  PackedMatrix packed;
  Workspace workspace;
  MatmulOptions options;
};

Row measure(const MatmulCase& each, int threads, const std::optional<OpenBlas>& openblas, Harness& harness) {
  const MatmulSizes& sizes = each.sizes;
  const auto call = std::make_shared<MatmulCall>(sizes);
  Contender ours;
  ours.threads = threads;
  ours.flops = 2.0 * static_cast<double>(sizes.m * sizes.n * sizes.k);
  ours.call = [call, packed = sizes.packed] { packed ? call->with_packed() : call->plain(); };
  std::vector<Contender> contenders;
  if (openblas) {
    openblas->set_threads(threads);
    contenders.push_back(ours);
    contenders.back().call = [call, openblas] { call->with(*openblas); };
  }
  // One row reads the whole matrix for two operations an element: a plain read of it is the limit.
  const bool reads = sizes.m == 1;
  if (reads) {
    ours.bytes = 4.0 * static_cast<double>(sizes.k * sizes.n);
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
  row.matmul = sizes;
  row.threads = threads;
  row.isa = isa_name(isa());
  row.measured = measured.back();
  if (openblas) row.of_openblas = measured.back().of_first;
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
