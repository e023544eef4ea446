#include "query/regressions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "query/books.h"

namespace flopwatch::query {
namespace {

using store::Window;

constexpr Micros kShortestStep = 5 * kMicrosPerMinute;
constexpr size_t kMostNodes = 1024;  // of a run that are remembered

// What a job held within the window.
struct JobHeld {
  double gpu_seconds = 0;
  Micros from = 0, to = 0;
  int64_t gpus = 0;
  std::set<std::string> models, nodes, drivers;
};
using JobsHeld = absl::flat_hash_map<int32_t, JobHeld>;

JobsHeld JobsHeldIn(const Memory& memory, Window window) {
  JobsHeld held;
  absl::flat_hash_map<int32_t, int32_t>
      counted;  // job to the first of the entities it was counted for last
  std::vector<store::EntityRecord> records;  // of the entities that are looked at
  memory.ForEachHeld(
      window, nullptr,
      [&](absl::Span<const int32_t> entities, double fraction,
          absl::Span<const jobs::OwnedStretch> stretches) {
        records.clear();
        for (const int32_t id : entities)
          records.push_back(memory.registry().entity(id).value_or(store::EntityRecord{}));
        const double gpus = fraction * static_cast<double>(entities.size());
        for (const jobs::OwnedStretch& s : stretches) {
          for (const int32_t job : s.jobs) {
            JobHeld& h = held[job];
            h.gpu_seconds += gpus * ToSeconds(s.to - s.from) / static_cast<double>(s.jobs.size());
            h.from = h.from == 0 ? s.from : std::min(h.from, s.from);
            h.to = std::max(h.to, s.to);
            if (const auto [it, fresh] = counted.try_emplace(job, entities[0]);
                !fresh && std::exchange(it->second, entities[0]) == entities[0])
              continue;
            h.gpus += static_cast<int64_t>(entities.size());
            for (const store::EntityRecord& e : records) {
              if (!e.labels.model.empty()) h.models.insert(e.labels.model);
              if (h.nodes.size() < kMostNodes) h.nodes.insert(e.labels.node);
              if (!e.labels.driver.empty()) h.drivers.insert(e.labels.driver);
            }
          }
        }
      });
  return held;
}

Micros StepFor(const JobsHeld& held) {
  double time = 0;
  for (const auto& [job, h] : held) time += static_cast<double>(h.to - h.from);
  for (const int64_t times : {1, 2, 3, 6, 12, 36, 72}) {
    if (time / static_cast<double>(times * kShortestStep) <= kMostRunSteps)
      return times * kShortestStep;
  }
  return 288 * kShortestStep;
}

fleet::WorkSums WorkOf(const store::UsageSums& s) {
  return {.busy_s = s.ofu.observed_s,
          .ofu_s = s.ofu.ofu_s,
          .ofu_span_s = s.ofu.computable_s,
          .duty_s = s.gpu_util_s,
          .duty_span_s = s.gpu_util_span_s,
          .sm_s = s.sm_active_s,
          .sm_span_s = s.sm_active_span_s,
          .tensor_s = s.tensor_s,
          .tensor_span_s = s.tensor_span_s,
          .clock_mhz_s = s.clock_mhz_s,
          .clock_span_s = s.clock_span_s,
          .power_j = s.power_j,
          .power_span_s = s.power_span_s,
          .occupancy_s = s.sm_occupancy_s,
          .occupancy_span_s = s.sm_occupancy_span_s};
}

// A configuration as a short text of its own: configurations are long, and all that counts is
// whether two are one (FNV-1a).
std::string ShortConfig(std::string_view config) {
  if (config.empty()) return "";
  uint64_t hash = 0xcbf29ce484222325;
  for (const char c : config) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return fmt::format("configuration {:08x}", static_cast<uint32_t>(hash ^ (hash >> 32)));
}

std::vector<std::string> Sorted(const std::set<std::string>& texts) {
  return {texts.begin(), texts.end()};
}

class WorkflowGatherer {
 public:
  WorkflowGatherer(const Query& query, Window window, const WorkflowFilter& filter,
                   double least_duty)
      : query_(query), memory_(query.memory()), filter_(filter), least_duty_(least_duty) {
    set_.window = memory_.StoredView(window).window;
  }

  StatusOr<WorkflowSet> Gather() {
    const JobsHeld held = JobsHeldIn(memory_, set_.window);
    attempts_ = AttemptsIn(memory_, set_.window);
    set_.step = StepFor(held);
    FW_ASSIGN_OR_RETURN(const std::vector<store::JobPoint> points,
                        query_.store().UsageByJobSteps(set_.window, set_.step, least_duty_));
    FW_RETURN_IF_ERROR(ReadClaims());
    if (!filter_.job.empty()) wanted_ = KeyOf(filter_.job);
    for (size_t at = 0; at < points.size();) {
      size_t end = at + 1;
      while (end < points.size() && points[end].job == points[at].job) ++end;
      const auto h = held.find(points[at].job);
      AddRun(absl::MakeConstSpan(points).subspan(at, end - at),
             h == held.end() ? nullptr : &h->second);
      at = end;
    }
    Order();
    return std::move(set_);
  }

 private:
  using Key = std::tuple<std::string, std::string, std::string>;  // workflow, user, cluster

  Key KeyOf(const std::string& job) const {
    return KeyOf(memory_.jobs().FindJob(job).value_or(jobs::JobRecord{}), job);
  }
  Key KeyOf(const jobs::JobRecord& record, const std::string& job) const {
    Key key = {record.workflow, record.user, record.cluster};
    if (const auto* of = attempts_.Of(job); of != nullptr && !of->empty()) {
      const jobs::AttemptRecord& last = of->back();
      if (std::get<0>(key).empty()) std::get<0>(key) = last.workflow;
      if (std::get<1>(key).empty()) std::get<1>(key) = last.user;
      if (std::get<2>(key).empty()) std::get<2>(key) = last.cluster;
    }
    return key;
  }

  // What the application of each job says last.
  Status ReadClaims() {
    FW_ASSIGN_OR_RETURN(std::vector<telemetry::ApplicationClaim> claims, query_.store().Claims());
    for (telemetry::ApplicationClaim& c : claims) {
      const auto [it, fresh] = claims_.try_emplace(c.job);
      if (fresh || it->second.first_seen <= c.first_seen) it->second = std::move(c);
    }
    return absl::OkStatus();
  }

  void AddRun(absl::Span<const store::JobPoint> points, const JobHeld* held) {
    const auto record = memory_.jobs().job(points[0].job);
    if (!record.has_value()) return;
    const Key key = KeyOf(*record, record->key);
    if (std::get<0>(key).empty() && !filter_.unnamed) {
      ++set_.without_workflow;
      return;
    }
    if (!filter_.workflow.empty() && std::get<0>(key) != filter_.workflow) return;
    if (!filter_.user.empty() && std::get<1>(key) != filter_.user) return;
    if (!filter_.job.empty() && key != wanted_) return;
    const auto [place, fresh] = places_.try_emplace(key, set_.workflows.size());
    if (fresh) {
      fleet::WorkflowRuns& w = set_.workflows.emplace_back();
      w.name = std::get<0>(key);
      w.user = std::get<1>(key);
      set_.places.emplace_back();
    }
    fleet::WorkflowRun& run = set_.workflows[place->second].runs.emplace_back();
    RunPlace& where = set_.places[place->second].emplace_back();
    run.job = record->key;
    run.from = points.front().ts;
    run.to = points.back().ts + set_.step;
    run.step = set_.step;
    for (const store::JobPoint& p : points) run.steps.push_back({p.ts, WorkOf(p.sums)});
    if (held != nullptr) {
      run.from = held->from;
      run.to = held->to;
      run.gpu_seconds = held->gpu_seconds;
      run.setting.gpus = held->gpus;
      run.setting.gpu_model = fmt::format("{}", fmt::join(held->models, " + "));
      where.nodes = Sorted(held->nodes);
      where.drivers = Sorted(held->drivers);
    }
    // A requeued job held other GPUs before: how many at a time its scheduler says.
    if (const auto* of = attempts_.Of(run.job); of != nullptr && !of->empty())
      if (const int64_t gpus = of->back().gpus; gpus > 0) run.setting.gpus = gpus;
    if (const auto c = claims_.find(run.job); c != claims_.end()) {
      run.setting.model = ShortConfig(c->second.model_config);
      run.setting.precision = c->second.precision;
      where.formula_version = c->second.formula_version;
      where.recompute = c->second.recompute;
      where.commit = c->second.commit;
      where.container_image = c->second.container_image;
      where.seq_len = c->second.seq_len.value_or(0);
    }
  }

  // By when runs began, and workflows by name.
  void Order() {
    std::vector<fleet::WorkflowRuns> workflows;
    std::vector<std::vector<RunPlace>> places;
    for (const auto& [key, index] : places_) {
      fleet::WorkflowRuns& w = set_.workflows[index];
      std::vector<size_t> order(w.runs.size());
      for (size_t k = 0; k < order.size(); ++k) order[k] = k;
      std::ranges::stable_sort(order, {}, [&](size_t k) {
        return std::pair<Micros, const std::string&>(w.runs[k].from, w.runs[k].job);
      });
      fleet::WorkflowRuns& to = workflows.emplace_back();
      to.name = std::move(w.name);
      to.user = std::move(w.user);
      std::vector<RunPlace>& of = places.emplace_back();
      for (const size_t k : order) {
        to.runs.push_back(std::move(w.runs[k]));
        of.push_back(std::move(set_.places[index][k]));
      }
    }
    set_.workflows = std::move(workflows);
    set_.places = std::move(places);
  }

  const Query& query_;
  const Memory& memory_;
  const WorkflowFilter& filter_;
  const double least_duty_;
  WorkflowSet set_;
  AttemptsByJob attempts_;
  absl::flat_hash_map<std::string, telemetry::ApplicationClaim> claims_;
  std::map<Key, size_t> places_;
  Key wanted_;
};

// Texts of runs [from, to), each once.
template <typename F>
std::set<std::string> TextsOf(const std::vector<RunPlace>& places, size_t from, size_t to, F&& of) {
  std::set<std::string> out;
  for (size_t k = from; k < to; ++k) of(places[k], &out);
  return out;
}

// What else is different since the run where it began: of what no run before had.
void AddOther(const std::vector<RunPlace>& places, const fleet::Regression& f,
              std::vector<std::string>* out) {
  if (f.within_run) return;
  const auto compare = [&](std::string_view what, auto of) {
    const std::set<std::string> before = TextsOf(places, f.first, f.at, of),
                                after = TextsOf(places, f.at, f.end, of);
    if (before.empty() || after.empty() || before == after) return;
    if (std::ranges::any_of(after, [&](const std::string& t) { return before.contains(t); }))
      return;
    out->push_back(
        fmt::format("{} {} -> {}", what, fmt::join(before, ", "), fmt::join(after, ", ")));
  };
  compare("driver", [](const RunPlace& p, std::set<std::string>* to) {
    to->insert(p.drivers.begin(), p.drivers.end());
  });
  const auto text = [](std::string RunPlace::*member) {
    return [member](const RunPlace& p, std::set<std::string>* to) {
      if (!(p.*member).empty()) to->insert(p.*member);
    };
  };
  compare("commit", text(&RunPlace::commit));
  compare("container", text(&RunPlace::container_image));
  compare("formula version", text(&RunPlace::formula_version));
  compare("recomputation", text(&RunPlace::recompute));
  compare("sequence length", [](const RunPlace& p, std::set<std::string>* to) {
    if (p.seq_len > 0) to->insert(std::to_string(p.seq_len));
  });
  const auto nodes = [](const RunPlace& p, std::set<std::string>* to) {
    to->insert(p.nodes.begin(), p.nodes.end());
  };
  const std::set<std::string> before = TextsOf(places, f.first, f.at, nodes),
                              after = TextsOf(places, f.at, f.end, nodes);
  if (!before.empty() && !after.empty() &&
      std::ranges::none_of(after, [&](const std::string& n) { return before.contains(n); }))
    out->push_back(fmt::format("all on other nodes than before ({})", after.size()));
}

// --- what only raw rows say: DRAM and links ---

// Findings whose raw rows are looked at, and of each side so many runs, a step of each.
constexpr size_t kMostLookedAt = 40, kRunsLookedAt = 3;
constexpr std::string_view kLinkColumns[] = {"dram_active", "nvlink_tx_bps", "nvlink_rx_bps",
                                             "pcie_tx_bps", "pcie_rx_bps"};

// Sums of values x s, each over its own seconds.
struct LinkSums {
  double sum[std::size(kLinkColumns)] = {}, seconds[std::size(kLinkColumns)] = {};

  std::optional<double> Of(size_t k) const { return MeanOf(sum[k], seconds[k]); }
  // Both directions.
  std::optional<double> Both(size_t tx) const {
    const auto a = Of(tx), b = Of(tx + 1);
    return a && b ? std::optional<double>(*a + *b) : std::nullopt;
  }
};

// Raw rows of jobs in windows of their own, read together: a question costs as much as a hundred
// thousand rows, so windows that are not far apart are read in one, with what lies between.
class LinkReader {
 public:
  explicit LinkReader(const Query& query) : query_(query) {}

  // Returns the number of what Read() will find.
  size_t Ask(int32_t job, Window window) {
    asked_.push_back({window, job, {}});
    return asked_.size() - 1;
  }
  const LinkSums& Of(size_t number) const { return asked_[number].sums; }

  Status Read() {
    std::vector<size_t> order(asked_.size());
    for (size_t k = 0; k < order.size(); ++k) order[k] = k;
    std::ranges::sort(order, {}, [&](size_t k) { return asked_[k].window.from; });
    for (size_t begin = 0, end; begin < order.size(); begin = end) {
      Window all = asked_[order[begin]].window;
      const Micros gap = WorthReading();
      for (end = begin + 1; end < order.size() && asked_[order[end]].window.from <= all.to + gap;
           ++end)
        all.to = std::max(all.to, asked_[order[end]].window.to);
      FW_RETURN_IF_ERROR(ReadPart(absl::MakeConstSpan(order).subspan(begin, end - begin), all));
    }
    return absl::OkStatus();
  }

 private:
  static constexpr double kRowsOfAQuestion = 100'000;
  struct Asked {
    Window window;
    int32_t job = 0;
    LinkSums sums;
  };

  // How long the rows between two windows may last, by how many there were so far: a second or a
  // minute apart, of eight GPUs or of all.
  Micros WorthReading() const {
    return rows_ == 0 ? 0
                      : static_cast<Micros>(kRowsOfAQuestion * static_cast<double>(read_) /
                                            static_cast<double>(rows_));
  }

  Status ReadPart(absl::Span<const size_t> of, Window all) {
    read_ += all.to - all.from;
    return query_.store().VisitGpuRows(
        all, kLinkColumns, store::RowOrder::kAny, [&](const store::GpuRows& rows) {
          rows_ += rows.count;
          for (size_t k = 0; k < rows.count; ++k) {
            if (rows.span_ms[k] <= 0 || rows.job_set[k] == 0) continue;
            // The last that begins before it, and those before that one that reach so far.
            auto it = std::ranges::upper_bound(of, rows.ts[k], {},
                                               [&](size_t n) { return asked_[n].window.from; });
            while (it != of.begin()) {
              Asked& asked = asked_[*--it];
              if (asked.window.from + kShortestStep < rows.ts[k]) break;
              if (rows.ts[k] < asked.window.to && IsOf(rows.job_set[k], asked.job))
                Add(rows, k, &asked.sums);
            }
          }
          return absl::OkStatus();
        });
  }

  static void Add(const store::GpuRows& rows, size_t k, LinkSums* out) {
    for (size_t c = 0; c < std::size(kLinkColumns); ++c) {
      const double v = rows.values[c][k];
      if (std::isnan(v)) continue;
      out->sum[c] += v * rows.span_ms[k] / 1e3;
      out->seconds[c] += rows.span_ms[k] / 1e3;
    }
  }

  bool IsOf(int32_t set, int32_t job) {
    const auto [it, fresh] = members_.try_emplace(set);
    if (fresh) it->second = query_.memory().jobs().SetMembers(set);
    return std::ranges::find(it->second, job) != it->second.end();
  }

  const Query& query_;
  std::vector<Asked> asked_;
  uint64_t rows_ = 0;                                           // that were read
  Micros read_ = 0;                                             // the time that these are of
  absl::flat_hash_map<int32_t, std::vector<int32_t>> members_;  // by job set
};

// What is asked for a finding: of runs before and after, each by itself.
struct LinkSides {
  fleet::Regression* of = nullptr;
  std::vector<size_t> before, after;
};

// The middle step within `only` of the first of `runs`.
std::vector<size_t> AskSide(const Query& query, const WorkflowSet& set,
                            const fleet::WorkflowRuns& workflow, const std::vector<size_t>& runs,
                            Window only, LinkReader* links) {
  std::vector<size_t> out;
  for (size_t k = 0; k < std::min(runs.size(), kRunsLookedAt); ++k) {
    const fleet::WorkflowRun& run = workflow.runs[runs[k]];
    const auto job = query.memory().jobs().FindJob(run.job);
    std::vector<Micros> steps;
    for (const fleet::RunStep& s : run.steps)
      if (s.at >= only.from && s.at < only.to) steps.push_back(s.at);
    if (!job || steps.empty()) continue;
    const Micros at = steps[steps.size() / 2];
    out.push_back(links->Ask(job->id, {at, at + std::min(set.step, kShortestStep)}));
  }
  return out;
}

LinkSides AskLinks(const Query& query, const WorkflowSet& set, fleet::Regression* f,
                   LinkReader* links) {
  const fleet::WorkflowRuns& workflow = set.workflows[f->workflow];
  std::vector<size_t> before, after;
  Window early = set.window, late = set.window;
  if (f->within_run) {
    before = after = {f->at};
    early.to = late.from = f->from;
  } else {
    for (size_t k = f->at; k-- > f->first;) before.push_back(k);
    for (size_t k = f->at; k < f->end; ++k) after.push_back(k);
  }
  return {.of = f,
          .before = AskSide(query, set, workflow, before, early, links),
          .after = AskSide(query, set, workflow, after, late, links)};
}

// DRAM and links before and after, and the family with them, of the largest findings. Raw rows are
// kept for a shorter time than rollups: where they are gone nothing is added.
Status LookAtLinks(const Query& query, const WorkflowSet& set,
                   std::vector<fleet::Regression>* findings) {
  LinkReader links(query);
  std::vector<LinkSides> sides;
  for (fleet::Regression& f : *findings)
    if (fleet::IsRegression(f.cause) && sides.size() < kMostLookedAt)
      sides.push_back(AskLinks(query, set, &f, &links));
  FW_RETURN_IF_ERROR(links.Read());
  const auto readings = [&](const std::vector<size_t>& numbers) {
    std::vector<fleet::LinkReading> out;
    for (const size_t n : numbers) {
      const LinkSums& r = links.Of(n);
      out.push_back({r.Of(0), r.Both(1), r.Both(3)});
    }
    return out;
  };
  for (const LinkSides& s : sides)
    fleet::NameWithLinks(readings(s.before), readings(s.after), s.of);
  return absl::OkStatus();
}

}  // namespace

StatusOr<WorkflowSet> GatherWorkflows(const Query& query, Window window,
                                      const WorkflowFilter& filter, double least_duty) {
  FW_RETURN_IF_ERROR(store::CheckWindow(window));
  return WorkflowGatherer(query, window, filter, least_duty).Gather();
}

StatusOr<RegressionAnswer> FindRegressions(const Query& query, const RegressionQuestion& question) {
  RegressionAnswer answer;
  FW_ASSIGN_OR_RETURN(answer.set,
                      GatherWorkflows(query, question.window, question.filter, kWorkDuty));
  answer.judgement = fleet::JudgeWorkflows(answer.set.workflows, question.options);
  if (!question.filter.job.empty()) {
    std::erase_if(answer.judgement.findings, [&](const fleet::Regression& f) {
      return answer.set.workflows[f.workflow].runs[f.at].job != question.filter.job;
    });
  }
  FW_RETURN_IF_ERROR(LookAtLinks(query, answer.set, &answer.judgement.findings));
  for (const fleet::Regression& f : answer.judgement.findings) {
    std::vector<std::string> texts;
    if (!f.set_before.empty() || !f.set_after.empty())
      texts.push_back(fmt::format("{} -> {}", f.set_before, f.set_after));
    for (std::string& t : fleet::ChangeEvidence(f)) texts.push_back(std::move(t));
    AddOther(answer.set.places[f.workflow], f, &texts);
    answer.evidence.push_back(fmt::format("{}", fmt::join(texts, "; ")));
  }
  return answer;
}

}  // namespace flopwatch::query
