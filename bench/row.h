// Row: one line of a bench table, as text and as JSON.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "bench/harness.h"

namespace heed::bench {

struct AttentionSizes {
  std::string mask = "dense";   // dense, causal, window
  std::string layout = "bhtd";  // bhtd, bthd, qkv
  int64_t window = 0;           // keys that a query sees, with mask "window"
  int64_t batch = 1;
  int64_t heads = 1;
  int64_t kv_heads = 1;
  int64_t dim = 1;
  int64_t t_q = 0;
  int64_t t_k = 0;
  int64_t width = 0;     // of the model, in rows of the whole layer: projections, attention, output; else 0
  bool packed = false;   // the layer's weights were packed before
  std::string option{};  // a score option: alibi, table, cap, sink, sigmoid, bias, dropout; of a layer: rotary; or none
};

struct MatmulSizes {
  int64_t m = 0;
  int64_t n = 0;
  int64_t k = 0;
  bool packed = false;
};

// What an op took of a training step, all its calls together.
struct OpTime {
  std::string op;
  std::string pass{};  // forward or backward; empty for what is neither, as the optimiser
  int64_t calls = 0;
  double seconds = 0;
};

// What does not apply is absent. Shares are fractions of 1.
struct Row {
  std::string name;
  std::string kind;           // forward, backward, both, decode, insight, matmul, memory, train
  std::string dtype = "f32";  // of the cache, kind decode; of the weights, kind matmul
  std::optional<AttentionSizes> attention;
  std::optional<MatmulSizes> matmul;
  int threads = 1;
  std::string isa;
  std::optional<Measurement> measured;
  std::string base;                    // the row that of_base compares with
  std::optional<double> of_base;       // speed over that of `base`, measured in alternation
  std::optional<double> read_gbps;     // a plain read of the same bytes
  std::optional<double> of_read;       // gbps / read_gbps
  std::optional<double> of_openblas;   // speed over OpenBLAS's, measured in alternation
  std::optional<double> megabytes;     // growth of the peak resident size, kind memory
  std::optional<int64_t> allocations;  // of the last step, by operator new, kind train
  std::vector<OpTime> profile;         // of one more step, the longest first, kind train; empty: none was asked for
};

// {"schema":"heed/bench-probe@1","isa":…,"threads":…,"gflops":…,"read_gbps":…,"read_share":…} on one line.
std::string to_json_line(const Probe& probe);

// Receives rows as they are measured.
class Report {
 public:
  virtual ~Report() = default;
  virtual void add(const Row& row) = 0;
  virtual void finish() {}
};

// Lines of a table, each written when its row is known.
class TextReport : public Report {
 public:
  explicit TextReport(std::ostream& out);
  void add(const Row& row) override;

 private:
  std::ostream& out_;
};

// One document, {"schema":"heed/bench@1","cpu":…,"isa":…,"rows":[…]}, written at the end.
class JsonReport : public Report {
 public:
  explicit JsonReport(std::ostream& out) : out_(out) {}
  void add(const Row& row) override { rows_.push_back(row); }
  void finish() override;

 private:
  std::ostream& out_;
  std::vector<Row> rows_;
};

}  // namespace heed::bench
