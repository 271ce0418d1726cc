// Decode: checks, the list of items, and the dispatch to the kernels.
#include "heed/attention/decode.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "heed/attention/decode_kernel.h"
#include "heed/attention/problem.h"
#include "heed/attention/query_blocks.h"
#include "heed/core/error.h"
#include "heed/core/memory.h"
#include "heed/core/overlap.h"
#include "heed/parallel/parallel_for.h"
#include "heed/simd/dispatch.h"

namespace heed {
namespace {

constexpr const char* kName = "attention_decode";

// Pieces per task if an item is shared by threads.
constexpr int64_t kTaskPieces = 4;

// How far apart the stated positions of items may be: one list of distances serves all items.
constexpr int64_t kMostApart = int64_t{1} << 24;

// The state of a call that the two paths share.
struct DecodeCall {
  const KvCache& cache;
  std::span<const int64_t> sequences;
  const DecodeOptions& options;
  DecodeJob job;

  int64_t items() const { return static_cast<int64_t>(sequences.size()); }
  int64_t t_q() const { return job.q.size(1); }
  int64_t length(int64_t n) const { return cache.length(sequences[static_cast<size_t>(n)]); }

  int64_t longest() const {
    int64_t most = 0;
    for (int64_t n = 0; n < items(); ++n) most = std::max(most, length(n));
    return most;
  }

  // The position of query 0 of item n, for the score options.
  int64_t first_query(int64_t n) const {
    const QueryPositions& positions = options.scores.positions;
    return positions.is_stated() ? positions.offset({items(), job.q.size(2), t_q(), length(n)}, n) : length(n) - t_q();
  }

  DecodePositions positions(const int64_t* first_queries) const {
    DecodePositions result{job.q.size(2), std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::min(),
                           first_queries};
    for (int64_t n = 0; n < items(); ++n) {
      result.before = std::max(result.before, first_query(n) + t_q());
      result.after = std::max(result.after, length(n) - first_query(n));
    }
    return result;
  }

  // Takes the positions of the first queries, and what score_job() needs.
  void prepare_scores(ScoreLanes lanes, Arena& arena) {
    if (options.scores.is_none()) return;
    auto* const first_queries = arena.take<int64_t>(items());
    for (int64_t n = 0; n < items(); ++n) std::construct_at(first_queries + n, first_query(n));
    job.scores = score_job(positions(first_queries), options.scores, lanes, arena);
  }

  // The keys that query t of item n sees.
  KeyRangeRule rule(int64_t n) const {
    const int64_t length = this->length(n);
    const int64_t offset = length - t_q();
    KeyRangeRule result;
    result.end = length;
    if (options.causal) result.end_shift = offset + 1;
    if (options.window_left < length) result.begin_shift = offset - options.window_left;
    return result;
  }

  const int32_t* pages(int64_t n) const { return cache.pages(sequences[static_cast<size_t>(n)]).data(); }
};

void check_scores(const DecodeCall& call) {
  const ScoreOptions& scores = call.options.scores;
  const MaskSizes sizes{call.items(), call.job.q.size(2), call.t_q(), call.longest()};
  check_lengths(kName, sizes);
  scores.check_sizes(kName, sizes);
  if (!scores.positions.is_stated() || sizes.batch == 0) return;
  scores.positions.check_fits(kName, "scores.positions", sizes);
  const DecodePositions positions = call.positions(nullptr);
  const int64_t apart = positions.before + positions.after - sizes.t_q - sizes.t_k;
  check(apart <= kMostApart, kName, "the stated positions of the items lie about ", apart, " apart; at most ",
        kMostApart, " in one call");
}

void check_call(const DecodeCall& call, View<float, 4> out, RowStates<float> rows) {
  const KvLayout& layout = call.job.layout;
  const View<const float, 4>& q = call.job.q;
  const int64_t heads = q.size(2);
  check_tensor(kName, "q", q, {call.items(), q.size(1), heads, layout.d_k});
  check(q.size(1) >= 0 && heads >= 1 && heads % layout.kv_heads == 0, kName, "q has shape ", q.shape(), "; its ", heads,
        " heads must be a multiple of the ", layout.kv_heads, " key/value heads of the cache");
  check_tensor(kName, "out", out, {call.items(), q.size(1), heads, layout.d_v});
  const View<const float, 1> cached(reinterpret_cast<const float*>(layout.data),
                                    {layout.kv_heads * layout.pages * layout.page_bytes() / 4});
  check_apart(kName, "out", out, "the cache", cached);
  if (!same_view(out, q)) check_apart(kName, "out", out, "q", q);
  check_lengths(kName, {call.items(), heads, q.size(1), 0});
  check_rows(kName, rows, {call.items(), heads, q.size(1), 0}, false);
  check(std::isfinite(call.job.score_factor), kName, "scale is ", call.options.scale.value_or(0.0F),
        "; it must be finite");
  check(call.options.window_left >= 0, kName, "window_left is ", call.options.window_left, "; give 0 or more");
  const bool by_position = call.options.causal || call.options.window_left != Mask::kUnlimited;
  for (const int64_t sequence : call.sequences) {
    check(call.cache.contains(sequence), kName, "there is no sequence ", sequence, " in the cache");
    check(!by_position || q.size(1) <= call.cache.length(sequence), kName, "q has ", q.size(1),
          " queries, but sequence ", sequence, " has ", call.cache.length(sequence),
          " keys; append the keys of the queries first");
  }
  check_scores(call);
}

// Calls visit(block) for every block of queries, in the order of for_each_query_block.
template <class Visit>
void for_each_block(const DecodeCall& call, Visit visit) {
  const int64_t heads = call.job.q.size(2);
  QueryCutter cutter({call.items(), heads, call.t_q(), 0}, call.job.layout.d_k, call.job.layout.d_v);
  for (int64_t n = 0; n < call.items(); ++n) {
    const KeyRangeRule rule = call.rule(n);
    QueryBlock block{n, 0, Segment{0, call.t_q(), 0, rule.end}, rule};
    for (; block.head < heads; ++block.head) {
      for (block.q_end = call.t_q(); block.q_end > 0; block.q_end = block.q_begin) {
        block.q_begin = cutter.next_begin(0, block.q_end);
        visit(block);
      }
    }
  }
}

// More than a few queries: the forward kernel, block by block.
void decode_blocks(DecodeCall& call) {
  const DecodeJob& job = call.job;
  int64_t blocks = 0;
  for_each_block(call, [&](const QueryBlock&) { ++blocks; });
  CallArena arena(call.options.arena);
  auto* const pages = arena->take<const int32_t*>(call.items());
  auto* const list = arena->take<QueryBlock>(blocks);
  call.prepare_scores(ScoreLanes::queries, *arena);
  for (int64_t n = 0; n < call.items(); ++n) pages[n] = call.pages(n);
  int64_t at = 0;
  for_each_block(call, [&](const QueryBlock& block) { std::construct_at(list + at++, block); });
  const PagedKeys paged{job.layout, pages};
  const Mask mask;
  ForwardJob forward;
  forward.inputs.q = job.q;
  forward.inputs.k = {nullptr, {call.items(), 0, job.layout.kv_heads, job.layout.d_k}};
  forward.inputs.v = {nullptr, {call.items(), 0, job.layout.kv_heads, job.layout.d_v}};
  forward.out = job.out;
  forward.rows = job.rows;
  forward.mask = &mask;
  forward.score_factor = job.score_factor;
  forward.paged = &paged;
  forward.scores = job.scores;
  dispatch([&]<Isa isa>() {
    const WorkerArenas workers(*arena, threads(), forward_scratch<isa>(job.layout.d_k, job.layout.d_v));
    parallel_for(blocks, [&](int64_t task, int worker) {
      Arena scratch = workers.of(worker);
      forward_block<isa>(forward, list[task], nullptr, scratch);
    });
  });
}

// The part of an item that one thread computes, if threads share items.
struct PieceTask {
  int64_t item = 0;
  int64_t first_piece = 0;
  int64_t end_piece = 0;
  int64_t results = 0;  // where its results begin, in floats
};

// A few queries: keys in lanes.
class FewQueries {
 public:
  explicit FewQueries(DecodeCall& call) : call_(call), items_(call.items() * call.job.layout.kv_heads) {}

  void run() {
    count_pieces();
    CallArena arena(call_.options.arena);
    item_ = arena->take<DecodeItem>(items_);
    list_items();
    const bool shared = threads_share_items();
    const int64_t row_floats = call_.job.row_count() * piece_result_floats(call_.job.layout);
    auto* const tasks = shared ? arena->take<PieceTask>(pieces_ / kTaskPieces + items_) : nullptr;
    auto* const results = shared ? arena->take<float>(pieces_ * row_floats) : nullptr;
    call_.prepare_scores(ScoreLanes::keys, *arena);
    dispatch([&]<Isa isa>() {
      const WorkerArenas workers(*arena, threads(), decode_scratch<isa>(call_.job));
      if (!shared) return run_whole<isa>(workers);
      run_shared<isa>(tasks, results, row_floats, workers);
    });
  }

 private:
  void count_pieces() {
    for (int64_t n = 0; n < call_.items(); ++n) {
      const auto [first, end] = piece_range(call_.rule(n));
      pieces_ += (end - first) * call_.job.layout.kv_heads;
      most_pieces_ = std::max(most_pieces_, end - first);
    }
  }

  KeyRange piece_range(const KeyRangeRule& rule) const {
    const int64_t begin = rule.at(0).begin;
    const int64_t end = rule.at(call_.t_q() - 1).end;
    return begin < end ? KeyRange{begin / kPageKeys, divide_up(end, kPageKeys)} : KeyRange{0, 0};
  }

  // Whole items need no intermediate results, but they must keep all threads busy: many of them, or a number that
  // divides evenly, with none larger than the others.
  bool threads_share_items() const {
    const int64_t count = threads();
    const bool even = items_ % count == 0 && pieces_ == items_ * most_pieces_;
    return count > 1 && items_ < 8 * count && !even && pieces_ > items_;
  }

  // The longest first.
  void list_items() {
    int64_t at = 0;
    for (int64_t n = 0; n < call_.items(); ++n) {
      const KeyRangeRule rule = call_.rule(n);
      const auto [first, end] = piece_range(rule);
      for (int64_t head = 0; head < call_.job.layout.kv_heads; ++head) {
        std::construct_at(item_ + at++, DecodeItem{n, head, call_.pages(n), rule, first, end});
      }
    }
    std::sort(item_, item_ + items_, [](const DecodeItem& a, const DecodeItem& b) {
      const int64_t more = a.end_piece - a.first_piece - (b.end_piece - b.first_piece);
      return more != 0 ? more > 0 : a.n != b.n ? a.n < b.n : a.kv_head < b.kv_head;
    });
  }

  template <Isa isa>
  void run_whole(const WorkerArenas& workers) {
    const int64_t ahead = std::min<int64_t>(threads(), items_);
    parallel_for(items_, [&](int64_t task, int worker) {
      const std::byte* next = nullptr;
      if (task + ahead < items_) {
        const DecodeItem& item = item_[task + ahead];
        if (item.first_piece < item.end_piece) {
          next = call_.job.layout.k_page(item.kv_head, item.pages[item.first_piece]);
        }
      }
      Arena scratch = workers.of(worker);
      decode_item<isa>(call_.job, item_[task], next, scratch);
    });
  }

  template <Isa isa>
  void run_shared(PieceTask* task, float* results, int64_t row_floats, const WorkerArenas& workers) {
    int64_t tasks = 0;
    int64_t at = 0;
    for (int64_t i = 0; i < items_; ++i) {
      for (int64_t first = item_[i].first_piece; first < item_[i].end_piece; first += kTaskPieces) {
        const int64_t end = std::min(first + kTaskPieces, item_[i].end_piece);
        std::construct_at(task + tasks++, PieceTask{i, first, end, at});
        at += (end - first) * row_floats;
      }
    }
    parallel_for(tasks, [&](int64_t i, int worker) {
      DecodeItem part = item_[task[i].item];
      part.first_piece = task[i].first_piece;
      part.end_piece = task[i].end_piece;
      Arena scratch = workers.of(worker);
      decode_pieces<isa>(call_.job, part, results + task[i].results, scratch);
    });
    // The results of an item are contiguous, and so are the items.
    parallel_for(items_, [&](int64_t i, int worker) {
      int64_t before = 0;
      for (int64_t other = 0; other < i; ++other) before += item_[other].end_piece - item_[other].first_piece;
      Arena scratch = workers.of(worker);
      decode_merge<isa>(call_.job, item_[i], results + before * row_floats, scratch);
    });
  }

  DecodeCall& call_;
  int64_t items_;  // of the batch, times key/value heads
  int64_t pieces_ = 0;
  int64_t most_pieces_ = 0;  // of an item
  DecodeItem* item_ = nullptr;
};

}  // namespace

void attention_decode(const KvCache& cache, std::span<const int64_t> sequences, View<const float, 4> q,
                      const DecodeOptions& options, View<float, 4> out, RowStates<float> rows) {
  const double scale =
      options.scale ? static_cast<double>(*options.scale) : 1.0 / std::sqrt(static_cast<double>(cache.layout().d_k));
  const auto score_factor = static_cast<float>(scale * kLog256E);
  DecodeCall call{cache, sequences, options, {cache.layout(), q, out, rows, score_factor}};
  check_call(call, out, rows);
  if (out.count() == 0) return;
  if (q.size(1) > kFewQueries) return decode_blocks(call);
  FewQueries(call).run();
}

}  // namespace heed
