#include "cli/attend_options.h"

#include <cmath>

#include "cli/command_line.h"
#include "heed/explain/number_text.h"
#include "heed/io/array.h"

namespace heed::cli {
namespace {

using explain::AttendCase;
using explain::AttendSizes;

[[noreturn]] void refuse(const std::string& code, const std::string& message, const std::string& hint) {
  throw CommandError("usage." + code, message, hint);
}

// "L,R": whole numbers, or inf.
explain::Window window_of(const std::string& text) {
  const auto side = [&](const std::string& word) {
    if (word == "inf") return Mask::kUnlimited;
    size_t end = 0;
    int64_t value = -1;
    try {
      value = std::stoll(word, &end);
    } catch (const std::exception&) {
      end = 0;
    }
    if (word.empty() || end != word.size() || value < 0) {
      refuse("window", "--window is '" + text + "'", "give L,R: keys before and after the query, as 512,0 or inf,0");
    }
    return value;
  };
  const size_t comma = text.find(',');
  if (comma == std::string::npos) {
    refuse("window", "--window is '" + text + "'", "give L,R: keys before and after the query, as 512,0 or inf,0");
  }
  return {side(text.substr(0, comma)), side(text.substr(comma + 1))};
}

// Does a mask or bias of this shape fit: [Tq,Tk], [B,Tq,Tk] or [B or 1, H or 1, Tq, Tk]?
void check_pairs_shape(const char* name, const std::string& file, const std::vector<int64_t>& shape,
                       const AttendSizes& s) {
  const size_t rank = shape.size();
  bool fits = rank >= 2 && rank <= 4 && shape[rank - 2] == s.t_q && shape[rank - 1] == s.t_k;
  if (fits && rank == 3) fits = shape[0] == s.batch;
  if (fits && rank == 4) fits = (shape[0] == 1 || shape[0] == s.batch) && (shape[1] == 1 || shape[1] == s.heads);
  if (fits) return;
  throw CommandError("data.shapes",
                     std::string(name) + " has shape " + to_text(shape) + ", but there are " + std::to_string(s.t_q) +
                         " queries and " + std::to_string(s.t_k) + " keys in " + std::to_string(s.heads) +
                         (s.heads == 1 ? " head" : " heads") + " of " + std::to_string(s.batch) +
                         (s.batch == 1 ? " item" : " items"),
                     "give [Tq,Tk], [B,Tq,Tk] or [B or 1, H or 1, Tq, Tk]", kBadData, file);
}

explain::DenseMask dense_mask(const char* name, const std::string& file, bool keep, const AttendSizes& sizes) {
  const io::Array array = io::read_array(file);
  check_pairs_shape(name, file, array.values.shape(), sizes);
  explain::DenseMask made{array.values.shape(), allocate_aligned<bool>(static_cast<size_t>(array.values.count())),
                          keep};
  for (size_t i = 0; i < array.values.values().size(); ++i) {
    const float value = array.values.values()[i];
    if (value != 0.0F && value != 1.0F) {
      throw CommandError("data.mask",
                         std::string(name) + " holds " + explain::shortest(value) + "; a mask holds 0 and 1",
                         "numbers to add to the scores go to --bias", kBadData, file);
    }
    made.values[i] = value == 1.0F;
  }
  return made;
}

// As [B or 1, H or 1, Tq, Tk].
Tensor read_bias(const std::string& file, const AttendSizes& sizes) {
  Tensor values = io::read_array(file).values;
  check_pairs_shape("the bias", file, values.shape(), sizes);
  const int64_t items = values.rank() == 2 ? 1 : values.shape()[0];
  const int64_t heads = values.rank() == 4 ? values.shape()[1] : 1;
  Tensor made({items, heads, sizes.t_q, sizes.t_k});
  std::copy(values.values().begin(), values.values().end(), made.values().begin());
  return made;
}

void apply_scores(const AttendFlags& f, AttendCase& given, const AttendSizes& s) {
  if (f.scale) {
    if (!std::isfinite(*f.scale))
      refuse("scale", "--scale is not finite", "give a number, or leave it out for 1/sqrt(d_k)");
    given.scale = f.scale;
  }
  if (f.softcap) {
    if (!(*f.softcap > 0.0F) || !std::isfinite(*f.softcap)) {
      refuse("softcap", "--softcap is " + explain::shortest(*f.softcap), "give a number above 0, as 30");
    }
    given.soft_cap = f.softcap;
  }
  if (!f.normalizer.empty()) given.sigmoid = f.normalizer == "sigmoid";
  if (f.alibi) {
    const std::vector<float> slopes = alibi_slopes(s.heads);
    given.alibi_slopes = Tensor({s.heads});
    std::copy(slopes.begin(), slopes.end(), given.alibi_slopes.values().begin());
  }
  if (!f.bias.empty()) given.bias = read_bias(f.bias, s);
  if (f.sink.empty()) return;
  if (given.sigmoid)
    refuse("sink", "--sink takes part in a softmax, and the normalizer is sigmoid", "leave one of them out");
  given.sinks = io::read_array(f.sink).values;
  if (given.sinks.shape() != std::vector<int64_t>{s.heads}) {
    throw CommandError("data.shapes",
                       "the sinks have shape " + to_text(given.sinks.shape()) + ", but " + there_are(s.heads, "head"),
                       "give one number a head, [H]", kBadData, f.sink);
  }
}

void apply_mask(const AttendFlags& f, AttendCase& given, const AttendSizes& s) {
  if (f.causal) given.causal = true;
  if (!f.window.empty()) given.window = window_of(f.window);
  if (!f.lengths.empty()) {
    if (static_cast<int64_t>(f.lengths.size()) != s.batch) {
      refuse("lengths",
             "--lengths has " + std::to_string(f.lengths.size()) + " numbers, but " + there_are(s.batch, "item"),
             "give the number of keys of each item");
    }
    for (const int64_t each : f.lengths) {
      if (each < 0 || each > s.t_k) {
        refuse("lengths", "--lengths has " + std::to_string(each) + ", but " + there_are(s.t_k, "key"),
               "give 0 to " + std::to_string(s.t_k) + " for each item");
      }
    }
    given.lengths = f.lengths;
  }
  if (!f.keep.empty()) given.dense = dense_mask("--keep", f.keep, true, s);
  if (!f.block.empty()) given.dense = dense_mask("--block", f.block, false, s);
}

void apply_align(const AttendFlags& f, AttendCase& given, const AttendSizes& s) {
  const bool by_position = given.causal || given.window || given.alibi_slopes.count() > 0;
  if (!f.align.empty()) {
    if (!by_position)
      refuse("align", "--align says where queries stand, and nothing asks", "add --causal, --window or --alibi");
    given.align = f.align == "top-left" ? explain::Align::top_left : explain::Align::bottom_right;
  } else if (by_position && s.t_q != s.t_k) {
    refuse("align",
           std::to_string(s.t_q) + " queries stand among " + std::to_string(s.t_k) + " keys, and nothing says where",
           "--align bottom-right (the last query at the last key, as with a cache) or --align top-left");
  }
}

}  // namespace

void apply_options(const AttendFlags& flags, AttendCase& given) {
  if (!flags.keep.empty() && !flags.block.empty()) {
    refuse("masks", "--keep and --block contradict each other: 1 means 'may see' in one and 'may not' in the other",
           "give one of them");
  }
  if (flags.no_out) {
    if (given.layer.out.count() == 0) refuse("no_out", "there is no W_O to leave out", "leave --no-out out");
    given.layer.out = given.layer.out_bias = Tensor();
  }
  const AttendSizes sizes = explain::sizes_of(given);
  apply_scores(flags, given, sizes);
  apply_mask(flags, given, sizes);
  apply_align(flags, given, sizes);
}

}  // namespace heed::cli
