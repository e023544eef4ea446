#include "cli/commands/doctor_target.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "base/text.h"
#include "cli/commands/scrape_tls.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/style.h"
#include "discovery/target.h"
#include "efficiency/counters/honesty.h"
#include "ingest/pipeline.h"
#include "net/http.h"

namespace flopwatch::cli {
namespace {

using efficiency::CounterOpinion;
using efficiency::CounterRule;
using efficiency::CounterRuleId;

// Someone waits: what holds in every one of a few readings is said at once.
constexpr efficiency::CounterPatience kAtOnce = {.seconds = 0, .readings = 3};
constexpr uint64_t kMaxBody = 64ull << 20;

struct Judged {
  ingest::GpuCounters counters;
  std::string gpu, model;  // "GPU-…", "GPU-…/3"
  int32_t index = -1;
};

Status ScrapeOnce(const net::ScrapeTarget& target, const net::TlsFiles& tls,
                  ingest::Pipeline* pipeline) {
  net::FetchOptions options;
  options.tls = tls;
  options.max_body_bytes = kMaxBody;
  const auto answer = net::Fetch(target.url, options);
  if (!answer.ok()) return Annotate(answer.status(), target.url);
  if (answer->status != 200) {
    return Unavailable("{} answers with HTTP {}; is it the exporter's /metrics?", target.url,
                       answer->status);
  }
  const ingest::TargetStats stats =
      pipeline->Ingest({target.url, target.node}, answer->body, Now(), 0);
  if (stats.rows == 0)
    return NotFound("{} shows no GPU; \"flopwatch decode\" says what is wrong with its lines",
                    target.url);
  return absl::OkStatus();
}

std::vector<Judged> JudgedOf(const ingest::IngestSide& side, const std::string& source) {
  std::vector<Judged> all;
  for (ingest::GpuCounters& gpu : side.pipeline.CountersOf(source, kAtOnce)) {
    Judged judged{.counters = std::move(gpu), .gpu = {}, .model = {}};
    if (const auto record = side.registry.entity(judged.counters.entity)) {
      judged.gpu = Printable(record->key.uuid, 80);
      if (record->key.gpu_instance >= 0) judged.gpu += fmt::format("/{}", record->key.gpu_instance);
      judged.model = Printable(record->labels.model, 80);
      judged.index = record->labels.index;
    }
    all.push_back(std::move(judged));
  }
  return all;
}

Table AsTable(const std::vector<Judged>& all) {
  Table table;
  table.columns = {{"gpu", ""},     {"index", ""}, {"model", ""},  {"verdict", ""}, {"rule", ""},
                   {"counter", ""}, {"says", ""},  {"remedy", ""}, {"readings", ""}};
  for (const Judged& j : all) {
    const auto& v = j.counters.verdict;
    const CounterRule* rule =
        v.rule == CounterRuleId::kNone ? nullptr : &efficiency::RuleOf(v.rule);
    const auto text = [](std::string_view s) { return s.empty() ? Cell() : Cell(std::string(s)); };
    table.rows.push_back({j.gpu, j.index < 0 ? Cell() : Cell(static_cast<int64_t>(j.index)),
                          text(j.model), text(efficiency::CounterOpinionName(v.opinion)),
                          text(rule == nullptr ? "" : rule->name),
                          text(rule == nullptr ? "" : rule->counter),
                          text(rule == nullptr ? efficiency::WhyNotJudged(v) : rule->says),
                          text(ingest::RemedyLine(j.counters)), static_cast<int64_t>(v.readings)});
  }
  return table;
}

// What is thought of several GPUs alike, as a paragraph.
void Say(Context& context, const ViewOptions& v, const std::vector<const Judged*>& alike) {
  const ingest::GpuCounters& first = alike.front()->counters;
  const CounterRuleId id = first.verdict.rule;
  const bool faulty = first.verdict.opinion == CounterOpinion::kFaulty;
  std::string gpus;
  for (size_t k = 0; k < alike.size() && k < 16; ++k) {
    const std::string name =
        alike[k]->index >= 0 ? fmt::format("{}", alike[k]->index) : alike[k]->gpu;
    const size_t slash = alike[k]->gpu.find('/');
    gpus += (k == 0 ? "" : ", ") + name;
    if (slash != std::string::npos) gpus += alike[k]->gpu.substr(slash);
  }
  if (alike.size() > 16) gpus += fmt::format(" and {} more", alike.size() - 16);
  const std::string indent(10, ' ');
  std::string_view says = efficiency::WhyNotJudged(first.verdict);
  std::string word = "ok", name;
  if (id != CounterRuleId::kNone) {
    says = efficiency::RuleOf(id).says;
    name = std::string(efficiency::RuleOf(id).name) + ": ";
    word = faulty ? "fail" : "warn";
  } else if (first.verdict.opinion == CounterOpinion::kNotJudged) {
    word = "?";
  } else {
    says = "it worked while it was looked at, and its counters agree";
  }
  const Tone tone = word == "ok" ? Tone::kGood : faulty ? Tone::kBad : Tone::kLost;
  context.Out(Paint(v, tone, PadRight(word, 6)) +
              Wrap(fmt::format("GPU {}: {}{}", gpus, name, says), v.width - 6, "", indent));
  if (const std::string remedy = ingest::RemedyLine(first); !remedy.empty())
    context.Out(fmt::format("{}{}\n", indent, remedy));  // never wrapped: it is to be copied
}

}  // namespace

Status RunDoctorTarget(Context& context, const DoctorTargetOptions& options) {
  std::vector<net::ScrapeTarget> targets;
  FW_RETURN_IF_ERROR(discovery::AppendAddresses({options.target}, {}, 1, &targets));
  auto every = ParseDuration(options.every);
  if (!every.ok()) return Annotate(every.status(), "--every");
  if (*every > kMicrosPerMinute)
    return InvalidArgument("--every: at most a minute apart, so that they are compared");
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  ingest::PipelineOptions pipeline;
  pipeline.nominal_interval = *every;
  pipeline.maintenance = false;
  FW_ASSIGN_OR_RETURN(const net::TlsFiles tls, ScrapeTlsOf(context));
  FW_ASSIGN_OR_RETURN(const std::unique_ptr<ingest::IngestSide> side,
                      ingest::IngestSide::Start(pipeline, &catalog, nullptr));
  for (int k = 0; k < options.scrapes; ++k) {
    if (k > 0) std::this_thread::sleep_for(std::chrono::microseconds(*every));
    FW_RETURN_IF_ERROR(ScrapeOnce(targets.front(), tls, &side->pipeline));
    context.Say(fmt::format("scrape {} of {} of {}", k + 1, options.scrapes,
                            Printable(targets.front().url, 200)));
  }
  const std::vector<Judged> all = JudgedOf(*side, targets.front().url);
  size_t faulty = 0, undecided = 0, open = 0, readings = 0;
  for (const Judged& j : all) {
    faulty += j.counters.verdict.opinion == CounterOpinion::kFaulty;
    undecided += j.counters.verdict.opinion == CounterOpinion::kUndecided;
    open += j.counters.verdict.opinion == CounterOpinion::kNotJudged;
    readings = std::max<size_t>(readings, j.counters.verdict.readings);
  }
  if (faulty > 0) context.SetExitCode(ExitCode::kUnhealthy);
  if (!context.for_people()) return context.Write(AsTable(all));
  std::map<std::pair<std::string, std::string>, std::vector<const Judged*>> alike;
  for (const Judged& j : all) {
    const auto& v = j.counters.verdict;
    const std::string rule =
        v.rule == CounterRuleId::kNone ? "" : std::string(efficiency::RuleOf(v.rule).name);
    // Faults first, then what cannot be told, what is not judged, and what is well.
    const auto order = std::to_string(9 - static_cast<int>(v.opinion));
    alike[{order + rule, rule.empty() ? std::string(efficiency::WhyNotJudged(v))
                                      : ingest::RemedyLine(j.counters)}]
        .push_back(&j);
  }
  ViewOptions v = context.view();
  for (const auto& [key, gpus] : alike) Say(context, v, gpus);
  context.Out(fmt::format("\n{} GPUs: {} faulty, {} undecided, {} not judged.\n", all.size(),
                          faulty, undecided, open));
  if (readings < kAtOnce.readings) {
    context.Out(Wrap(fmt::format("{} different readings in {} scrapes: the exporter collects less "
                                 "often (dcgm-exporter: every 30 s). Frozen, dead and stuck "
                                 "counters show with --every 30s.",
                                 readings, options.scrapes),
                     v.width, "", ""));
  }
  return absl::OkStatus();
}

}  // namespace flopwatch::cli
