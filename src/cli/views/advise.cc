#include "cli/views/advise.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/views/columns.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

// "1,204.5 GPU-hours (3.1 % of held), 2,409.00 EUR"; of an action that brings nothing by itself "".
std::string WhatItBrings(const Json& action, const std::string& currency) {
  const auto seconds = action["gpu_seconds"].number();
  if (!seconds) return "";
  std::string text = action["at_most"].boolean() ? "up to " : "";
  text += GpuHours(*seconds) + " GPU-hours";
  if (const auto share = action["of_allocated"].number(); share && *share <= 1)
    text += fmt::format(" ({} of what jobs held)", Percent(share));
  if (const auto money = action["money"].number())
    text += fmt::format(", {:.2f}{}{}", *money, currency.empty() ? "" : " ", currency);
  return text;
}

void WriteNames(JsonWriter& json, const Json& subjects, std::string_view of) {
  json.Key(of).BeginArray();
  for (const Json& name : subjects[of].array()) json.Value(name.text());
  json.EndArray();
  const std::string total = std::string(of) + "_total";
  json.Field(total, subjects[total].integer_or(0));
}

}  // namespace

std::string AdviceList(const Json& answer, const ViewOptions& v, size_t lines) {
  const std::string currency = answer["currency"].text();
  std::string out;
  int number = 0;
  for (const Json& action : answer["actions"].array()) {
    const std::string head = fmt::format("{:>2}. ", ++number);
    out += Paint(v, Tone::kBold, Wrap(action["action"].text(), v.width, head, "    "));
    const std::string brings = WhatItBrings(action, currency);
    if (!brings.empty()) out += Wrap("brings " + brings, v.width, "    ", "    ");
    size_t said = 0;
    for (const Json& line : action["evidence"].array()) {
      if (said++ == lines) break;
      out += Paint(v, Tone::kDim, Wrap(line.text(), v.width, "    - ", "      "));
    }
  }
  return out;
}

std::string NothingToAdvise(const Json& answer) {
  const double held = answer["allocated_gpu_seconds"].number_or(0);
  const std::string window = WindowView::From(answer["window"]).Text();
  if (held <= 0) {
    return fmt::format("No job held a GPU, {}. \"flopwatch sankey\" shows what the GPUs did.",
                       window);
  }
  return fmt::format(
      "Nothing to do: of {} GPU-hours that jobs held, {}, none is seen lost; samples speak for {}.",
      GpuHours(held), window, Percent(answer["coverage"].number()));
}

std::string AdviceCard(const Json& answer, const ViewOptions& v) {
  std::string out =
      Paint(v, Tone::kBold, "What to do first") + "   " +
      WindowView::From(answer["window"]).Text() + "\n" +
      Wrap(fmt::format("{} GPU-hours held by jobs, of which samples speak for {}; no GPU-second "
                       "stands in two actions",
                       GpuHours(answer["allocated_gpu_seconds"].number_or(0)),
                       Percent(answer["coverage"].number())),
           v.width, "", "") +
      "\n";
  if (answer["actions"].array().empty()) out = NothingToAdvise(answer) + "\n";
  out += AdviceList(answer, v, 2);
  for (const Json& note : answer["notes"].array())
    out += "\n" + Wrap(note.text(), v.width, "note: ", "      ");
  return out;
}

Table AdviceTable(const Json& answer) {
  using enum ColumnFormat;
  const std::string currency = answer["currency"].text();
  Table t;
  t.columns = ColumnsOf(Column{"action", "action"}, Column{"gpu_seconds", "gpu time", kGpuHours},
                        Column{"money", currency.empty() ? "money" : currency, kMoney},
                        Column{"cause", "cause"}, Column{"subject", "subject"},
                        Column{"jobs", "jobs", kCount}, Column{"evidence", "evidence"},
                        Column{"basis", "basis"}, Column{"link", "link"});
  for (const Json& a : answer["actions"].array()) {
    AddRow(&t, TextCell(a["action"]), NumberCell(a["gpu_seconds"]), NumberCell(a["money"]),
           TextCell(a["cause"]), TextCell(a["subject"]), IntegerCell(a["subjects"]["jobs_total"]),
           FirstEvidence(a), TextCell(a["basis"]), TextCell(a["link"]));
  }
  for (const Json& note : answer["notes"].array()) t.notes.push_back(note.text());
  return t;
}

std::string FirstEvidence(const Json& action) {
  const auto& lines = action["evidence"].array();
  return lines.empty() ? "" : lines.front().text();
}

void WriteActions(JsonWriter& json, const Json& answer) {
  json.BeginArray();
  for (const Json& a : answer["actions"].array()) {
    json.BeginObject();
    for (const std::string_view key : {"action", "cause", "subject"})
      json.TextField(key, a[key].text());
    for (const std::string_view key : {"gpu_seconds", "money"}) json.Field(key, a[key].number());
    json.Field("at_most", a["at_most"].boolean());
    json.TextField("basis", a["basis"].text()).Key("subjects").BeginObject();
    for (const std::string_view of : {"jobs", "users", "nodes", "gpus"})
      WriteNames(json, a["subjects"], of);
    json.EndObject().Key("evidence").BeginArray();
    for (const Json& line : a["evidence"].array()) json.Value(line.text());
    json.EndArray().TextField("link", a["link"].text()).EndObject();
  }
  json.EndArray();
}

std::string AdviceJson(const Json& answer) {
  std::string body;
  JsonWriter json(&body);
  WriteActions(json, answer);
  return body + "\n";
}

}  // namespace flopwatch::cli
