#include "heed/explain/check_file.h"

#include <algorithm>
#include <cctype>
#include <cmath>

#include "heed/core/suggest.h"
#include "heed/explain/check_rules.h"
#include "heed/io/file.h"

namespace heed::explain {
namespace {

using io::TomlValue;

// The steps that a file may begin from; the inputs come besides.
bool may_be_given(AttentionStep step) {
  return is_input(step) || step == AttentionStep::q || step == AttentionStep::k || step == AttentionStep::v ||
         step == AttentionStep::scores || step == AttentionStep::scaled || step == AttentionStep::weights ||
         step == AttentionStep::concat;
}

template <class Keep>
std::vector<std::string> step_names(Keep keep) {
  std::vector<std::string> names;
  for (const AttentionStep step : all_steps()) {
    if (keep(step)) names.emplace_back(step_name(step));
  }
  return names;
}

bool same_letters(const std::string& a, const std::string& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](unsigned char x, unsigned char y) { return std::tolower(x) == std::tolower(y); });
}

// "did you mean", for W_Q also after w_q; or all names.
std::string hint_of(const std::string& name, const std::vector<std::string>& known) {
  constexpr size_t kMostName = 64;
  const auto same =
      std::find_if(known.begin(), known.end(), [&](const auto& each) { return same_letters(each, name); });
  std::string hint = name.size() > kMostName ? "" : did_you_mean(same == known.end() ? name : *same, known);
  if (!hint.empty()) return hint;
  hint = "the names are:";
  for (const std::string& each : known) hint += " " + each;
  return hint;
}

void check_names(const TomlValue& table, const std::string& path, const std::string& prefix,
                 const std::vector<std::string>& known) {
  for (const io::TomlMember& member : table.members) {
    const std::string& name = member.name;
    const TomlValue& value = member.value;
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw io::FileError(path, {"unknown key " + io::in_quotes(prefix + name), "", hint_of(name, known), value.line});
  }
}

Matrices values_of(const ClaimedStep& step) {
  Matrices matrices(step.count, step.rows, step.columns);
  std::transform(step.numbers.begin(), step.numbers.end(), matrices.values.begin(),
                 [](const auto& n) { return n->value; });
  return matrices;
}

class CheckFileReader {
 public:
  CheckFileReader(const TomlValue& table, const std::string& path) : file_{table, path} {}

  WorkedExample read() {
    check_all_names();
    example_.title = read_text(file_, "title");
    example_.source = read_text(file_, "source");
    example_.rules = read_rules(file_);
    read_given();
    check_used_options();
    compute();
    read_claims();
    return std::move(example_);
  }

 private:
  CheckFileTable file_;
  WorkedExample example_;

  void check_all_names() const {
    std::vector<std::string> known = option_names();
    for (std::string& name : step_names(may_be_given)) known.push_back(std::move(name));
    known.emplace_back("claimed");
    check_names(file_.table, file_.path, "", known);
    const TomlValue* claimed = file_.table.find("claimed");
    if (claimed == nullptr || claimed->kind != TomlValue::Kind::table || claimed->members.empty()) {
      throw io::FileError(file_.path, {"nothing is claimed", "",
                                       "put the steps to be checked into a table [claimed] at the end of the file",
                                       claimed == nullptr ? 0 : claimed->line});
    }
    check_names(*claimed, file_.path, "claimed.", step_names(is_explained));
  }

  void read_given() {
    for (const AttentionStep step : all_steps()) {
      const std::string name(step_name(step));
      if (step == AttentionStep::heads || !file_.has(name)) continue;  // `heads` is their number here
      const NamedValue value = file_.at(name);
      example_.given[step] = values_of(arrange(value, read_numbers(value, {}), step, example_.rules));
    }
  }

  // What is given may not be computable from what else is given, and every option must matter.
  void check_given_once(const StepValues& values) const {
    for (const AttentionStep step : all_steps()) {
      if (!example_.given.has(step) || is_input(step)) continue;
      const std::vector<AttentionStep> sources = sources_of(example_.rules, values, step);
      if (!std::all_of(sources.begin(), sources.end(), [&](AttentionStep each) { return values.has(each); })) continue;
      std::string names;
      for (const AttentionStep each : sources) names += (names.empty() ? "" : " and ") + std::string(step_name(each));
      file_.at(std::string(step_name(step))).refuse(names + " give it already", "leave it out, or claim it");
    }
  }

  void check_used_options() const {
    const auto refuse_with = [&](AttentionStep step, std::initializer_list<const char*> names) {
      if (!example_.given.has(step)) return;
      for (const char* name : names) {
        if (file_.has(name))
          file_.at(name).refuse("it changes nothing, because " + std::string(step_name(step)) + " is given");
      }
    };
    refuse_with(AttentionStep::scaled, {"scale", "d_k"});
    refuse_with(AttentionStep::weights, {"scale", "d_k", "softcap", "bias", "alibi", "mask", "align", "window",
                                         "lengths", "keep", "block", "sinks", "normalizer"});
    const bool context = example_.given.has(AttentionStep::context);
    if (context && !example_.given.has(AttentionStep::w_k) && !example_.given.has(AttentionStep::w_v)) {
      file_.at("context").refuse("nothing is computed from it", "give W_K and W_V");
    }
  }

  void compute() {
    try {
      const StepValues before_mask = compute_steps(example_.rules, example_.given);
      check_given_once(before_mask);
      check_scale(before_mask);
      const Matrices& weights = before_mask[AttentionStep::weights];
      for (const char* name : {"bias", "alibi", "mask", "align", "window", "lengths", "keep", "block"}) {
        if (weights.empty() && file_.has(name)) file_.at(name).refuse("there are no scores", "give q and k, or scores");
      }
      if (!weights.empty() && !example_.given.has(AttentionStep::weights)) {
        read_bias_and_mask(file_, weights.rows, weights.columns, example_.rules);
      }
      example_.exact = compute_steps(example_.rules, example_.given);
    } catch (const StepError& error) {
      throw io::FileError(file_.path, {error.what(), "", "", line_of(error.step())});
    }
  }

  // Of the step, or of the first thing in the file that it is computed from; 0 where there is none.
  int line_of(AttentionStep step) const {
    if (const TomlValue* value = file_.table.find(std::string(step_name(step)))) return value->line;
    for (const AttentionStep source : sources_of(example_.rules, example_.given, step)) {
      if (const int line = line_of(source); line > 0) return line;
    }
    return 0;
  }

  void check_scale(const StepValues& values) const {
    if (values.has(AttentionStep::scores) && !values.has(AttentionStep::scaled)) {
      file_.at("scores").refuse("the scale is not known", "give d_k (for 1/√d_k), or scale");
    }
    if (file_.has("d_k") && values.has(AttentionStep::q)) {
      const double width = static_cast<double>(values[AttentionStep::q].columns);
      if (std::abs(*example_.rules.scale * std::sqrt(width) - 1.0) > 1e-9) {
        file_.at("d_k").refuse("heads of q are " + std::to_string(values[AttentionStep::q].columns) + " wide",
                               "leave d_k out, or give scale");
      }
    }
  }

  void read_claims() {
    const TomlValue& claimed = *file_.table.find("claimed");
    for (const auto& [name, value] : claimed.members) {
      const AttentionStep step = step_named(name);
      const NamedValue named{value, file_.path, "claimed." + name};
      check_computed(named, step);
      const bool hides = step == AttentionStep::biased || step == AttentionStep::masked;
      ClaimedStep claim =
          arrange(named, read_numbers(named, {.minus_infinity = hides, .left_out = true}), step, example_.rules);
      const Matrices& exact = example_.exact[step];
      if (claim.count != exact.count || claim.rows != exact.rows || claim.columns != exact.columns) {
        named.refuse("its shape is " + to_text(Matrices(claim.count, claim.rows, claim.columns).shape()) +
                         ", that of the step " + to_text(exact.shape()),
                     "leave a number out with \"?\", a whole row with []");
      }
      if (std::none_of(claim.numbers.begin(), claim.numbers.end(), [](const auto& n) { return n.has_value(); })) {
        named.refuse("no numbers", "leave the step out");
      }
      example_.steps.push_back(std::move(claim));
    }
    std::sort(example_.steps.begin(), example_.steps.end(),
              [](const ClaimedStep& a, const ClaimedStep& b) { return a.step < b.step; });
  }

  // Rejects a claim of a step that this computation does not have, and says what is missing.
  void check_computed(const NamedValue& named, AttentionStep step) const {
    if (example_.exact.has(step)) return;
    if (is_input(step)) named.refuse("it is not given, so there is nothing to compare it with");
    if (!is_taken(example_.rules, step)) {
      named.refuse("this computation has no such step", step == AttentionStep::capped ? "give softcap"
                                                        : step == AttentionStep::biased
                                                            ? "give bias"
                                                            : "give mask, window, lengths, keep or block");
    }
    std::string missing;
    for (const AttentionStep each : sources_of(example_.rules, example_.exact, step)) {
      if (!example_.exact.has(each)) missing += (missing.empty() ? "" : " and ") + std::string(step_name(each));
    }
    named.refuse("it cannot be computed without " + missing,
                 step == AttentionStep::out ? "give W_O, or claim it as concat" : "give " + missing);
  }
};

}  // namespace

WorkedExample parse_check_file(const std::string& text, const std::string& path) {
  return CheckFileReader(io::parse_toml(text, path), path).read();
}

WorkedExample read_check_file(const std::string& path) {
  return parse_check_file(io::read_file(path, kMostCheckFileBytes), path);
}

}  // namespace heed::explain
