// embedding_forward and embedding_backward against plain sums in double.
#include "heed/ops/embedding.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "tests/support/allocation_counter.h"
#include "tests/support/draw.h"
#include "tests/support/every_isa.h"
#include "tests/support/expect_error.h"
#include "tests/support/matrix.h"
#include "tests/support/threads.h"

namespace heed::test {
namespace {

double at(const Matrix& matrix, int64_t i, int64_t j) { return static_cast<double>(matrix.view()(i, j)); }

// Half of the tokens have one of three ids, the others any.
std::vector<int64_t> draw_ids(int64_t count, int64_t rows) {
  Draw draw(1);
  std::vector<int64_t> ids;
  for (int64_t n = 0; n < count; ++n)
    ids.push_back(draw.chance(2) ? draw.below(std::min<int64_t>(rows, 3)) : draw.below(rows));
  return ids;
}

View<const int64_t, 1> view_of(const std::vector<int64_t>& ids) {
  return {ids.data(), {static_cast<int64_t>(ids.size())}};
}

TEST(Embedding, ForwardTakesRowsScalesThemAndAddsPositions) {
  on_every_isa([] {
    for (const int64_t width : {0, 1, 16, 33, 100}) {
      const Matrix table(9, width, Layout::padded_rows, 1), positions(4, width, Layout::rows, 2);
      const std::vector<int64_t> ids = draw_ids(11, 9);
      Matrix y(11, width, Layout::padded_rows, 3);
      embedding_forward(view_of(ids), {table.view()}, y.view());
      for (int64_t n = 0; n < 11; ++n) expect_same_bits<1>(y.view()[n], table.view()[ids[static_cast<size_t>(n)]]);
      embedding_forward(view_of(ids), {table.view(), positions.view(), 2.5F}, y.view());
      y.expect_guards();
      for (int64_t n = 0; n < 11; ++n) {
        for (int64_t j = 0; j < width; ++j) {
          const double expected = 2.5 * at(table, ids[static_cast<size_t>(n)], j) + at(positions, n % 4, j);
          ASSERT_NEAR(at(y, n, j), expected, 1e-6);
        }
      }
    }
  });
}

TEST(Embedding, BackwardAddsTheSumOverTheTokensOfARow) {
  on_every_isa([] {
    for (const int64_t width : {0, 1, 16, 33, 100}) {
      for (const int64_t tokens : {0, 1, 11, 300}) {
        const std::vector<int64_t> ids = draw_ids(tokens, 50);
        const Matrix d_y(tokens, width, Layout::reversed, 1);
        Matrix d_table(50, width, Layout::padded_rows, 2), d_positions(7, width, Layout::padded_rows, 3);
        std::vector<std::vector<double>> table(50), positions(7);
        for (int64_t j = 0; j < width; ++j) {
          for (int64_t v = 0; v < 50; ++v) table[static_cast<size_t>(v)].push_back(at(d_table, v, j));
          for (int64_t t = 0; t < 7; ++t) positions[static_cast<size_t>(t)].push_back(at(d_positions, t, j));
          for (int64_t n = 0; n < tokens; ++n) {
            table[static_cast<size_t>(ids[static_cast<size_t>(n)])].back() += 2.5 * at(d_y, n, j);
            positions[static_cast<size_t>(n % 7)].back() += at(d_y, n, j);
          }
        }
        embedding_backward(view_of(ids), d_y.view(), 2.5F, {d_table.view(), d_positions.view()});
        d_table.expect_guards();
        d_positions.expect_guards();
        for (int64_t j = 0; j < width; ++j) {
          const auto column = static_cast<size_t>(j);
          for (int64_t v = 0; v < 50; ++v) ASSERT_NEAR(at(d_table, v, j), table[static_cast<size_t>(v)][column], 1e-4);
          for (int64_t t = 0; t < 7; ++t) {
            ASSERT_NEAR(at(d_positions, t, j), positions[static_cast<size_t>(t)][column], 2e-5);
          }
        }
      }
    }
  });
}

TEST(Embedding, ThePaddingRowReceivesNothing) {
  const std::vector<int64_t> ids = draw_ids(40, 5);
  const Matrix d_y(40, 6, Layout::rows, 1);
  Matrix d_table(5, 6, Layout::rows, 2), whole(5, 6, Layout::rows, 2);
  const Matrix before = d_table;
  embedding_backward(view_of(ids), d_y.view(), 1.0F, {.table = d_table.view(), .padding_idx = 1});
  embedding_backward(view_of(ids), d_y.view(), 1.0F, {.table = whole.view()});
  for (int64_t v = 0; v < 5; ++v) {
    expect_same_bits<1>(View<const float, 2>(d_table.view())[v], v == 1 ? before.view()[v] : whole.view()[v]);
  }
}

TEST(Embedding, SameBitsForAnyNumberOfThreadsAndWhateverElseIsInTheBatch) {
  on_every_isa([] {
    const std::vector<int64_t> ids = draw_ids(1000, 300);
    const Matrix d_y(1000, 40, Layout::rows, 1);
    Matrix d_table(300, 40), d_positions(50, 40);
    const Matrix before = d_table;
    embedding_backward(view_of(ids), d_y.view(), 2.0F, {d_table.view(), d_positions.view()});
    {
      const Threads threads(3);
      Matrix other_table(300, 40), other_positions(50, 40);
      embedding_backward(view_of(ids), d_y.view(), 2.0F, {other_table.view(), other_positions.view()});
      expect_same_bits<2>(other_table.view(), d_table.view());
      expect_same_bits<2>(other_positions.view(), d_positions.view());
    }
    // Only the tokens of row 2.
    std::vector<int64_t> tokens;
    for (int64_t n = 0; n < 1000; ++n) {
      if (ids[static_cast<size_t>(n)] == 2) tokens.push_back(n);
    }
    ASSERT_GT(static_cast<int64_t>(tokens.size()), kEmbeddingBlock);
    const auto count = static_cast<int64_t>(tokens.size());
    Matrix alone(count, 40), alone_table(300, 40);
    for (int64_t i = 0; i < count; ++i) {
      for (int64_t j = 0; j < 40; ++j) alone.view()(i, j) = d_y.view()(tokens[static_cast<size_t>(i)], j);
    }
    const std::vector<int64_t> twos(tokens.size(), 2);
    embedding_backward(view_of(twos), alone.view(), 2.0F, {.table = alone_table.view()});
    expect_same_bits<1>(View<const float, 2>(alone_table.view())[2], View<const float, 2>(d_table.view())[2]);
    expect_same_bits<1>(View<const float, 2>(alone_table.view())[3], before.view()[3]);
  });
}

TEST(Embedding, AllocatesNothingAfterTheFirstCallWithAnArena) {
  const std::vector<int64_t> ids = draw_ids(500, 100);
  const Matrix d_y(500, 8, Layout::rows, 1);
  Matrix d_table(100, 8), d_positions(50, 8);
  Arena arena;
  const auto call = [&] {
    embedding_backward(view_of(ids), d_y.view(), 1.0F, {d_table.view(), d_positions.view()}, &arena);
  };
  call();
  const int64_t allocations = allocation_count();
  call();
  EXPECT_EQ(allocation_count(), allocations);
}

TEST(Embedding, RefusesIdsOutsideOfTheTableBeforeWriting) {
  Matrix table(5, 4), y(3, 4, Layout::rows, 2);
  const Matrix before = y;
  for (const int64_t wrong : {int64_t{-1}, int64_t{5}}) {
    const std::vector<int64_t> ids = {0, wrong, 4};
    const std::string text = "the id at position 1 is " + std::to_string(wrong) + ", but the table has 5 rows";
    expect_error("embedding_forward", [&] { embedding_forward(view_of(ids), {table.view()}, y.view()); }, {text});
    expect_same_bits<2>(y.view(), before.view());
    expect_error("embedding_backward",
                 [&] { embedding_backward(view_of(ids), y.view(), 1.0F, {.table = table.view()}); }, {text});
  }
}

TEST(Embedding, RefusesWhatDoesNotFit) {
  Matrix table(5, 4), y(3, 4), wrong(4, 3);
  const std::vector<int64_t> ids = {0, 1, 4};
  const auto refused = [&](const EmbeddingTable& from, View<float, 2> to, const char* rule) {
    expect_error([&] { embedding_forward(view_of(ids), from, to); }, {"embedding_forward: ", rule});
  };
  refused({table.view()}, wrong.view(), "y has shape [4, 3], expected [3, 4]");
  refused({table.view(), wrong.view()}, y.view(), "positions has shape [4, 3], expected [4, 4]");
  refused({table.view(), table.view().slice(0, 0, 0)}, y.view(), "positions has no rows for 3 tokens");
  refused({table.view()}, table.view().slice(0, 0, 3), "y of shape [3, 4] shares memory with table");
  expect_error([&] { embedding_backward(view_of(ids), y.view(), 1.0F, {.table = wrong.view()}); },
               {"embedding_backward: ", "the gradient of the table has shape [4, 3], expected [4, 4]"});
  expect_error([&] { embedding_backward(view_of(ids), y.view(), 1.0F, {.table = table.view(), .padding_idx = 5}); },
               {"embedding_backward: ", "padding_idx is 5, but the table has 5 rows"});
}

}  // namespace
}  // namespace heed::test
