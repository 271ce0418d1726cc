// Prefetches the rows that are needed next into L2 during computation, a few cache lines at a time.
#pragma once

#include <cstdint>

#include "heed/core/view.h"

namespace heed {

class Prefetcher {
 public:
  // Adds `rows` rows of `view` from row `first` on, of one item and head.
  void add(View<const float, 4> view, int64_t b, int64_t head, int64_t first, int64_t rows) {
    if (rows <= 0 || count_ == kMost) return;
    parts_[count_++] = {reinterpret_cast<const char*>(&view(b, first, head, 0)),
                        view.stride(1) * static_cast<int64_t>(sizeof(float)), rows,
                        view.size(3) * static_cast<int64_t>(sizeof(float))};
  }

  // Drops the rows that are not prefetched yet.
  void clear() { count_ = at_ = 0, column_ = 0; }

  // Prefetches the next few cache lines.
  void step(int64_t lines) {
    while (lines > 0 && at_ < count_) {
      Part& part = parts_[at_];
      for (; lines > 0 && part.rows > 0; --lines) {
        __builtin_prefetch(part.row + column_, 0, 2);
        column_ += kLine;
        if (column_ < part.bytes) continue;
        column_ = 0;
        part.row += part.row_step;
        --part.rows;
      }
      if (part.rows == 0) ++at_;
    }
  }

 private:
  static constexpr int64_t kLine = 64;
  static constexpr int kMost = 4;
  struct Part {
    const char* row = nullptr;
    int64_t row_step = 0;
    int64_t rows = 0;
    int64_t bytes = 0;  // of a row
  };
  Part parts_[kMost];
  int count_ = 0;
  int at_ = 0;
  int64_t column_ = 0;
};

}  // namespace heed
