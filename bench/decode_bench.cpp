#include "bench/decode_bench.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "heed/attention/decode.h"
#include "heed/core/rng.h"
#include "heed/core/tensor.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/isa.h"
#include "heed/simd/probe.h"

namespace heed::bench {
namespace {

struct Heads {
  int64_t heads, kv_heads, dim;
};

DecodeCase plain_case(const Heads& heads, int64_t length, bool bf16) {
  DecodeCase result;
  result.sizes.mask = "causal";
  result.sizes.heads = heads.heads;
  result.sizes.kv_heads = heads.kv_heads;
  result.sizes.dim = heads.dim;
  result.sizes.t_q = 1;
  result.sizes.t_k = length;
  result.lengths = {length};
  result.bf16 = bf16;
  result.label.name = "decode-h" + std::to_string(heads.heads) +
                      (heads.kv_heads != heads.heads ? "-kv" + std::to_string(heads.kv_heads) : "") + "-d" +
                      std::to_string(heads.dim) + "-t" + std::to_string(length) + (bf16 ? "-bf16" : "");
  result.label.group = bf16 ? "bf16" : "f32";
  result.label.slow = length > 4096;
  return result;
}

// 16 sequences of 100 … 4096 keys.
DecodeCase batch_case(const Heads& heads, bool bf16) {
  DecodeCase result = plain_case(heads, 4096, bf16);
  result.lengths.clear();
  for (int64_t i = 0; i < 16; ++i) result.lengths.push_back(100 + (4096 - 100) * ((i * 7) % 16) / 15);
  result.sizes.batch = 16;
  result.label.name += "-b16";
  result.label.group = "batch";
  return result;
}

std::vector<DecodeCase> make_cases() {
  constexpr Heads kPlain{8, 8, 64};
  constexpr Heads kGrouped{32, 8, 128};
  std::vector<DecodeCase> cases;
  for (const bool bf16 : {false, true}) {
    for (const Heads& heads : {kPlain, kGrouped}) {
      for (const int64_t length : {4096, 32768}) cases.push_back(plain_case(heads, length, bf16));
    }
  }
  for (const Heads& heads : {kPlain, kGrouped}) cases.push_back(batch_case(heads, false));
  const std::vector<DecodeCase> one_thread = cases;
  for (DecodeCase each : one_thread) {
    each.label.name += "-threads";
    each.label.group = "threads";
    each.all_threads = true;
    cases.push_back(each);
  }
  return cases;
}

// A cache with the case's sequences, and the calls that are timed.
class DecodeCall {
 public:
  explicit DecodeCall(const DecodeCase& each) : cache_(cache_options(each)) {
    const AttentionSizes& sizes = each.sizes;
    Tensor k({sizes.t_k, sizes.kv_heads, sizes.dim});
    Tensor v({sizes.t_k, sizes.kv_heads, sizes.dim});
    Rng(1).fill_normal(k.values());
    Rng(2).fill_normal(v.values());
    for (const int64_t length : each.lengths) {
      sequences_.push_back(cache_.add());
      cache_.append({sequences_.back(), 0, std::as_const(k).view<3>().slice(0, 0, length),
                     std::as_const(v).view<3>().slice(0, 0, length)});
    }
    const auto batch = static_cast<int64_t>(each.lengths.size());
    q_ = Tensor({batch, sizes.t_q, sizes.heads, sizes.dim});
    out_ = Tensor({batch, sizes.t_q, sizes.heads, sizes.dim});
    Rng(3).fill_normal(q_.values());
    options_.arena = &arena_;
  }
  DecodeCall(const DecodeCall&) = delete;
  DecodeCall& operator=(const DecodeCall&) = delete;

  void decode() { attention_decode(cache_, sequences_, std::as_const(q_).view<4>(), options_, out_.view<4>()); }

  // Reads the pages that hold keys once, in the order of their addresses, and does nothing with them.
  void read() const {
    const KvLayout& layout = cache_.layout();
    const int64_t pages = layout.pages - cache_.free_pages();  // the first ones
    const int64_t parts = threads();
    const int64_t tasks = layout.kv_heads * parts;
    parallel_for(tasks, [&](int64_t task, int) {
      const int64_t begin = pages * (task % parts) / parts;
      const int64_t end = pages * (task % parts + 1) / parts;
      probe_read(reinterpret_cast<const float*>(layout.k_page(task / parts, begin)),
                 (end - begin) * layout.page_bytes() / 4, 1);
    });
  }

  // Bytes of the pages that hold keys, and of the keys themselves.
  double page_bytes() const {
    const KvLayout& layout = cache_.layout();
    return static_cast<double>((layout.pages - cache_.free_pages()) * layout.kv_heads * layout.page_bytes());
  }
  double key_bytes() const {
    const KvLayout& layout = cache_.layout();
    double keys = 0;
    for (const int64_t sequence : sequences_) keys += static_cast<double>(cache_.length(sequence));
    return keys / static_cast<double>(kPageKeys) * static_cast<double>(layout.kv_heads * layout.page_bytes());
  }

 private:
  static KvCacheOptions cache_options(const DecodeCase& each) {
    KvCacheOptions options;
    for (const int64_t length : each.lengths) options.capacity += (length + kPageKeys - 1) / kPageKeys * kPageKeys;
    options.sequences = static_cast<int64_t>(each.lengths.size());
    options.kv_heads = each.sizes.kv_heads;
    options.d_k = options.d_v = each.sizes.dim;
    options.storage = each.bf16 ? KvStorage::bf16 : KvStorage::f32;
    return options;
  }

  KvCache cache_;
  std::vector<int64_t> sequences_;
  Tensor q_, out_;
  Arena arena_;
  DecodeOptions options_;
};

Row measure(const DecodeCase& each, int threads, Harness& harness) {
  const auto call = std::make_shared<DecodeCall>(each);
  Contender ours;
  ours.threads = threads;
  ours.flops = 0;
  for (const int64_t length : each.lengths) {
    ours.flops += 4.0 * static_cast<double>(each.sizes.t_q * each.sizes.heads * each.sizes.dim * length);
  }
  ours.bytes = call->key_bytes();
  ours.call = [call] { call->decode(); };
  Contender read;
  read.threads = threads;
  read.bytes = call->page_bytes();
  read.call = [call] { call->read(); };
  std::vector<Contender> contenders;
  if (each.all_threads) {
    contenders.push_back(ours);
    contenders.back().threads = 1;
  }
  contenders.push_back(read);
  contenders.push_back(ours);
  const std::vector<Measurement> measured = harness.measure(contenders);

  Row row;
  row.name = each.label.name;
  row.kind = "decode";
  row.dtype = each.bf16 ? "bf16" : "f32";
  row.attention = each.sizes;
  row.threads = threads;
  row.isa = isa_name(isa());
  row.measured = measured.back();
  row.read_gbps = measured[measured.size() - 2].gbps;
  row.of_read = measured.back().gbps / *row.read_gbps;
  if (each.all_threads) {
    row.base = "one thread";
    row.of_base = measured.back().of_first;
  }
  return row;
}

}  // namespace

const std::vector<DecodeCase>& decode_cases() {
  static const std::vector<DecodeCase> cases = make_cases();
  return cases;
}

void bench_decode(const std::vector<DecodeCase>& cases, const BenchOptions& options, Report& report) {
  Harness harness(options.harness);
  for (const DecodeCase& each : cases) {
    report.add(measure(each, each.all_threads ? options.all_threads : options.threads, harness));
  }
}

}  // namespace heed::bench
