#include "heed/explain/page.h"

#include "heed/attention/step_table.h"
#include "heed/explain/json_text.h"

namespace heed::explain {
namespace {

// The table of steps, as the page reads it.
std::string steps_json() {
  JsonText json;
  json.begin_array();
  for (const AttentionStep step : all_steps()) {
    const StepRow& row = step_row(step);
    json.line().begin_object().key("name").value(row.name);
    json.key("dims").begin_array();
    for (const Dim dim : row.dims) json.value(dim_name(dim));
    json.end_array().key("sources").begin_array();
    for (const AttentionStep source : row.sources) json.value(step_name(source));
    json.end_array().key("optional").value(row.optional).key("meaning").value(row.meaning).end_object();
  }
  return json.end_array().text();
}

}  // namespace

std::string attend_page(std::string_view json) {
  const size_t steps = kAttendPage.find(kAttendPageSteps);
  const size_t after_steps = steps + kAttendPageSteps.size();
  const size_t data = kAttendPage.find(kAttendPageData, after_steps);
  std::string page;
  page.reserve(kAttendPage.size() + json.size());
  page.append(kAttendPage.substr(0, steps)).append(steps_json());
  page += kAttendPage.substr(after_steps, data - after_steps);
  // In JSON "<" occurs inside strings only, and there its escape means the same: neither </script> nor <!-- survives.
  for (const char letter : json) {
    if (letter == '<') {
      page += "\\u003c";
    } else {
      page += letter;
    }
  }
  page += kAttendPage.substr(data + kAttendPageData.size());
  return page;
}

}  // namespace heed::explain
