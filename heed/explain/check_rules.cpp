#include "heed/explain/check_rules.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "heed/attention/mask.h"

namespace heed::explain {
namespace {

using io::TomlValue;

constexpr int64_t kMostHeads = 1024;
constexpr int64_t kMostWidth = int64_t{1} << 20;

int64_t whole_number(const NamedValue& value, const TomlValue& inner, int64_t least, int64_t most) {
  const double number = inner.number;
  if (inner.kind != TomlValue::Kind::number || number != std::floor(number) || number < static_cast<double>(least) ||
      number > static_cast<double>(most)) {
    value.refuse(inner, "a whole number from " + std::to_string(least) + " to " + std::to_string(most) + " is needed");
  }
  return static_cast<int64_t>(number);
}

int64_t read_whole(const CheckFileTable& file, const std::string& name, int64_t missing, int64_t most) {
  if (!file.has(name)) return missing;
  const NamedValue value = file.at(name);
  return whole_number(value, value.value, 1, most);
}

double read_positive(const NamedValue& value) {
  const WrittenNumber number = *read_numbers(value, {}).numbers.front();
  if (value.value.kind != TomlValue::Kind::number) value.refuse("one number is needed");
  if (number.value <= 0.0) value.refuse("it is " + number.text, "give a number above 0");
  return number.value;
}

// One of the words; the first where the name is absent.
std::string read_word(const CheckFileTable& file, const std::string& name, const std::vector<std::string>& words) {
  if (!file.has(name)) return words.front();
  const NamedValue value = file.at(name);
  if (std::find(words.begin(), words.end(), value.value.text) != words.end() &&
      value.value.kind == TomlValue::Kind::text) {
    return value.value.text;
  }
  std::string hint = "give one of:";
  for (const std::string& word : words) hint += " \"" + word + "\"";
  const std::string got =
      value.value.kind == TomlValue::Kind::text ? io::in_quotes(value.value.text) : io::describe(value.value);
  value.refuse("it is " + got, hint);
}

// A matrix for all heads, or one per head.
Matrices read_score_matrix(const NamedValue& value, const NumberRules& number_rules, int64_t heads, int64_t t_q,
                           int64_t t_k) {
  const NestedNumbers read = read_numbers(value, number_rules);
  std::vector<int64_t> shape = read.shape;
  while (shape.size() < 3) shape.insert(shape.begin(), 1);
  if ((shape[0] != 1 && shape[0] != heads) || shape[1] != t_q || shape[2] != t_k) {
    value.refuse("its shape is " + to_text(read.shape) + ", that of the scores " +
                     to_text(std::vector<int64_t>{heads, t_q, t_k}),
                 "a row for each query, a number for each key; one matrix serves all heads");
  }
  Matrices matrices(shape[0], t_q, t_k);
  std::transform(read.numbers.begin(), read.numbers.end(), matrices.values.begin(),
                 [](const auto& n) { return n->value; });
  return matrices;
}

// How the queries are aligned with the keys. `user` names the option that needs it.
QueryPositions read_positions(const CheckFileTable& file, const std::string& user, int64_t t_q, int64_t t_k) {
  const std::string align = read_word(file, "align", {"", "bottom-right", "top-left"});
  if (align == "top-left") return QueryPositions::top_left();
  if (align == "bottom-right") return QueryPositions::bottom_right();
  if (t_q != t_k) {
    file.at(user).refuse(std::to_string(t_q) + " queries and " + std::to_string(t_k) + " keys",
                         "say where the queries stand: align = \"bottom-right\" (the last query at the last key) or "
                         "\"top-left\"");
  }
  return {};
}

Mask read_window(const CheckFileTable& file, const QueryPositions& positions) {
  const NamedValue value = file.at("window");
  if (value.value.kind != TomlValue::Kind::array || value.value.items.size() != 2) {
    value.refuse("two numbers are needed", "[keys before the query, keys behind it], inf for all");
  }
  const auto side = [&](const TomlValue& inner) {
    const bool all = inner.kind == TomlValue::Kind::number && std::isinf(inner.number) && inner.number > 0.0;
    return all ? Mask::kUnlimited : whole_number(value, inner, 0, kMostWidth);
  };
  return Mask::window(side(value.value.items[0]), side(value.value.items[1]), positions);
}

Mask read_lengths(const CheckFileTable& file, int64_t t_k) {
  const NamedValue value = file.at("lengths");
  const bool in_array = value.value.kind == TomlValue::Kind::array && value.value.items.size() == 1;
  return Mask::lengths({whole_number(value, in_array ? value.value.items[0] : value.value, 0, t_k)});
}

// Hides the keys where hides(number) is true.
template <class Hides>
void hide_where(Matrices& visible, const Matrices& numbers, Hides hides) {
  if (visible.count < numbers.count) {  // from here on a mask a head
    const Matrices one = visible;
    visible = Matrices(numbers.count, one.rows, one.columns);
    for (size_t n = 0; n < visible.values.size(); ++n) visible.values[n] = one.values[n % one.values.size()];
  }
  for (size_t n = 0; n < visible.values.size(); ++n) {
    if (hides(numbers.values[n % numbers.values.size()])) visible.values[n] = 0.0;
  }
}

// keep, block, and a mask written as what is added to the scores: 0 or -inf.
void read_dense_masks(const CheckFileTable& file, const StepRules& rules, Matrices& visible) {
  if (file.has("keep") && file.has("block")) {
    file.at("block").refuse("keep and block contradict each other", "give one of them");
  }
  const auto read = [&](const std::string& name, const NumberRules& number_rules, double other,
                        const std::string& hint) {
    const NamedValue value = file.at(name);
    Matrices numbers = read_score_matrix(value, number_rules, rules.heads, visible.rows, visible.columns);
    const auto allowed = [=](double each) { return each == 0.0 || each == other; };
    if (!std::all_of(numbers.values.begin(), numbers.values.end(), allowed)) {
      value.refuse("numbers other than 0 and " + short_text(other), hint);
    }
    return numbers;
  };
  const NumberRules zero_or_one{.booleans = true};
  const std::string hint = "1 (true) or 0 (false) for each query and key";
  if (file.has("keep")) hide_where(visible, read("keep", zero_or_one, 1.0, hint), [](double n) { return n == 0.0; });
  if (file.has("block")) hide_where(visible, read("block", zero_or_one, 1.0, hint), [](double n) { return n != 0.0; });
  if (file.has("mask") && file.at("mask").value.kind == TomlValue::Kind::array) {
    const double hidden = -std::numeric_limits<double>::infinity();
    hide_where(visible, read("mask", {.minus_infinity = true}, hidden, "use keep, block or bias for other numbers"),
               [](double n) { return n != 0.0; });
  }
}

// Bias and ALiBi: what is added to the scores.
void read_bias(const CheckFileTable& file, int64_t t_q, int64_t t_k, StepRules& rules) {
  if (file.has("bias")) {
    rules.bias = read_score_matrix(file.at("bias"), {.minus_infinity = true}, rules.heads, t_q, t_k);
  }
  if (!file.has("alibi")) return;
  const NamedValue alibi = file.at("alibi");
  if (alibi.value.kind != TomlValue::Kind::boolean) alibi.refuse("true or false is needed");
  if (!alibi.value.boolean) return;
  const QueryPositions positions = read_positions(file, "alibi", t_q, t_k);
  const int64_t offset = positions.is_stated() ? positions.offset({1, rules.heads, t_q, t_k}, 0) : 0;
  const std::vector<float> slopes = alibi_slopes(rules.heads);
  const Matrices dense = rules.bias;
  rules.bias = Matrices(rules.heads, t_q, t_k);
  for (int64_t h = 0; h < rules.heads; ++h) {
    for (int64_t i = 0; i < t_q; ++i) {
      for (int64_t j = 0; j < t_k; ++j) {
        const double distance = std::abs(static_cast<double>(j - i - offset));
        rules.bias.at(h, i, j) = (dense.empty() ? 0.0 : dense.at(dense.count == 1 ? 0 : h, i, j)) -
                                 static_cast<double>(slopes[static_cast<size_t>(h)]) * distance;
      }
    }
  }
}

}  // namespace

const std::vector<std::string>& option_names() {
  static const std::vector<std::string> kNames = {"title",   "source", "heads", "kv_heads", "d_k",       "scale",
                                                  "softcap", "bias",   "alibi", "mask",     "align",     "window",
                                                  "lengths", "keep",   "block", "sinks",    "normalizer"};
  return kNames;
}

std::string read_text(const CheckFileTable& file, const std::string& name) {
  if (!file.has(name)) return "";
  const NamedValue value = file.at(name);
  if (value.value.kind != TomlValue::Kind::text) value.refuse("it is " + io::describe(value.value) + ", not a text");
  const auto is_control = [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; };
  if (std::any_of(value.value.text.begin(), value.value.text.end(), is_control)) {
    value.refuse("a control character", "one line of plain text is needed");
  }
  return value.value.text;
}

StepRules read_rules(const CheckFileTable& file) {
  StepRules rules;
  rules.heads = read_whole(file, "heads", 1, kMostHeads);
  rules.kv_heads = read_whole(file, "kv_heads", rules.heads, kMostHeads);
  if (rules.heads % rules.kv_heads != 0) {
    file.at("kv_heads")
        .refuse(std::to_string(rules.kv_heads) + " key/value heads do not divide " + std::to_string(rules.heads) +
                " heads");
  }
  if (file.has("scale") && file.has("d_k"))
    file.at("d_k").refuse("scale is given too", "d_k says 1/√d_k: give one of them");
  if (file.has("scale")) rules.scale = read_positive(file.at("scale"));
  if (file.has("d_k")) rules.scale = 1.0 / std::sqrt(static_cast<double>(read_whole(file, "d_k", 1, kMostWidth)));
  if (file.has("softcap")) rules.soft_cap = read_positive(file.at("softcap"));
  if (read_word(file, "normalizer", {"softmax", "sigmoid"}) == "sigmoid") rules.normaliser = Normaliser::sigmoid;
  if (file.has("sinks")) {
    const NamedValue value = file.at("sinks");
    const NestedNumbers sinks = read_numbers(value, {});
    if (sinks.shape != std::vector<int64_t>{rules.heads}) {
      value.refuse("its shape is " + to_text(sinks.shape), "one number a head: [" + std::to_string(rules.heads) + "]");
    }
    if (rules.normaliser == Normaliser::sigmoid) value.refuse("sigmoid weights have no sinks");
    for (const auto& each : sinks.numbers) rules.sinks.push_back(each->value);
  }
  return rules;
}

void read_bias_and_mask(const CheckFileTable& file, int64_t t_q, int64_t t_k, StepRules& rules) {
  read_bias(file, t_q, t_k, rules);
  Mask mask;
  const bool dense = file.has("mask") && file.at("mask").value.kind == TomlValue::Kind::array;
  const bool causal = !dense && read_word(file, "mask", {"none", "causal"}) == "causal";
  if (causal) mask = mask & Mask::causal(read_positions(file, "mask", t_q, t_k));
  if (file.has("window")) mask = mask & read_window(file, read_positions(file, "window", t_q, t_k));
  if (file.has("lengths")) mask = mask & read_lengths(file, t_k);
  if (file.has("align") && !causal && !file.has("window") && !file.has("alibi")) {
    file.at("align").refuse("nothing here depends on where the queries stand",
                            "it goes with mask = \"causal\", window or alibi");
  }
  if (mask.is_none() && !dense && !file.has("keep") && !file.has("block")) return;
  const MaskSizes sizes{1, rules.heads, t_q, t_k};
  rules.visible = Matrices(1, t_q, t_k);
  for (int64_t i = 0; i < t_q; ++i) {
    for (int64_t j = 0; j < t_k; ++j) rules.visible.at(0, i, j) = mask.visible(sizes, 0, 0, i, j) ? 1.0 : 0.0;
  }
  read_dense_masks(file, rules, rules.visible);
}

}  // namespace heed::explain
