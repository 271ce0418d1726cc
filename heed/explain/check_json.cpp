#include "heed/explain/check_json.h"

#include <cmath>
#include <nlohmann/json.hpp>

namespace heed::explain {
namespace {

using Json = nlohmann::ordered_json;

// JSON has no infinity: null, counted beside.
Json number_json(double value, int64_t& nonfinite) {
  if (std::isfinite(value)) return value;
  ++nonfinite;
  return nullptr;
}

template <class Counted>
void put_counts(Json& json, const Counted& counted) {
  for (const Verdict each : {Verdict::right, Verdict::cut, Verdict::near, Verdict::follows, Verdict::wrong}) {
    json[std::string(verdict_name(each))] = counted.count(each);
  }
}

void put_place(Json& json, const GradedStep& step, const GradedNumber& number) {
  if (step.shape.size() == 3) json["head"] = number.head;
  json["row"] = number.row;
  json["column"] = number.column;
}

Json step_json(const GradedStep& step, int64_t& nonfinite) {
  Json json{{"name", step_name(step.step)}, {"formula", step.formula}, {"shape", step.shape}};
  put_counts(json, step);
  json["numbers"] = Json::array();
  for (const GradedNumber& each : step.numbers) {
    Json number;
    put_place(number, step, each);
    number["text"] = each.claimed.text;
    number["claimed"] = number_json(each.claimed.value, nonfinite);
    number["unit"] = each.claimed.unit;
    number["exact"] = number_json(each.exact, nonfinite);
    number["carried"] = number_json(each.carried, nonfinite);
    number["from_inputs"] = verdict_name(each.from_exact);
    number["from_claim"] = verdict_name(each.from_claim);
    number["verdict"] = verdict_name(each.verdict);
    number["line"] = each.claimed.line;
    json["numbers"].push_back(std::move(number));
  }
  return json;
}

Json first_wrong_json(const Grading& grading) {
  const GradedNumber* first = grading.first_wrong();
  if (first == nullptr) return nullptr;
  Json json{{"step", step_name(grading.first_wrong_step()->step)}};
  put_place(json, *grading.first_wrong_step(), *first);
  json["line"] = first->claimed.line;
  return json;
}

}  // namespace

std::string check_json(const std::string& file, const WorkedExample& example, const Grading& grading) {
  Json json{{"schema", "heed/check@1"}, {"file", file}};
  if (!example.title.empty()) json["title"] = example.title;
  if (!example.source.empty()) json["source"] = example.source;
  json["count"] = grading.numbers();
  put_counts(json, grading);
  json["first_wrong"] = first_wrong_json(grading);
  int64_t nonfinite = 0;
  Json steps = Json::array();
  for (const GradedStep& step : grading.steps) steps.push_back(step_json(step, nonfinite));
  json["nonfinite"] = nonfinite;
  json["steps"] = std::move(steps);
  json["remarks"] = Json::array();
  for (const Remark& remark : grading.remarks) {
    json["remarks"].push_back({{"kind", remark.kind}, {"step", step_name(remark.step)}, {"text", remark.text}});
  }
  // Names of files need not be UTF-8; JSON has to be.
  return json.dump(1, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace heed::explain
