#include "query/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "fleet/regressions/change_point.h"

namespace flopwatch::query {
namespace {

using store::ApplicationSums;
using store::Window;
using telemetry::ApplicationField;

// Before the earlier of two runs, where runs are looked for that say what is usual; and no window
// that is looked at is longer.
constexpr Micros kScatterWindow = 14 * kMicrosPerDay, kLongestCompared = 120 * kMicrosPerDay;
constexpr size_t kMostNamed = 8;  // of a list of nodes

// What a run or a side reported of itself, beside what it did.
struct Numbers {
  fleet::WorkSums sums;
  double gpu_seconds = 0;
  ApplicationSums said;
};
using SaidByJob = absl::flat_hash_map<std::string, ApplicationSums>;

struct FigureSpec {
  std::string_view name;
  FigureUnit unit;
  std::optional<double> (*of)(const Numbers& n);
};
constexpr FigureSpec kComparedFigures[] = {
    {"ofu", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.Ofu(); }},
    {"ofu_busy", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.BusyOfu(); }},
    {"mfu", FigureUnit::kRatio,
     [](const Numbers& n) { return n.said.Mean(ApplicationField::kMfu); }},
    {"duty", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.Duty(); }},
    {"sm_efficiency", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.SmActive(); }},
    {"tensor_active", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.TensorActive(); }},
    {"occupancy_elapsed", FigureUnit::kRatio, [](const Numbers& n) { return n.sums.Occupancy(); }},
    {"sm_clock_mhz", FigureUnit::kMhz, [](const Numbers& n) { return n.sums.ClockMhz(); }},
    {"power_w", FigureUnit::kWatts, [](const Numbers& n) { return n.sums.PowerW(); }},
    {"tokens_per_s", FigureUnit::kNumber,
     [](const Numbers& n) { return n.said.Mean(ApplicationField::kTokensPerS); }},
    {"tflops_per_gpu", FigureUnit::kNumber,
     [](const Numbers& n) { return n.said.Mean(ApplicationField::kTflopsPerGpu); }},
    {"step_time_s", FigureUnit::kNumber,
     [](const Numbers& n) { return n.said.Mean(ApplicationField::kStepTimeS); }},
    {"gpu_seconds", FigureUnit::kGpuSeconds,
     [](const Numbers& n) { return std::optional<double>(n.gpu_seconds); }},
};

// A run where it was found.
struct FoundRun {
  const WorkflowSet* set = nullptr;
  size_t workflow = 0, run = 0;
  const fleet::WorkflowRun& of() const { return set->workflows[workflow].runs[run]; }
  const RunPlace& place() const { return set->places[workflow][run]; }
};

class Comparer {
 public:
  Comparer(const Query& query, const CompareQuestion& question)
      : query_(query), memory_(query.memory()), question_(question) {}

  StatusOr<Comparison> Run() {
    FW_RETURN_IF_ERROR(Name(question_.a, &out_.a));
    FW_RETURN_IF_ERROR(Name(question_.b, &out_.b));
    FW_RETURN_IF_ERROR(Gather(out_.a, out_.b, &sets_[0]));
    FW_ASSIGN_OR_RETURN(const std::vector<FoundRun> a, RunsOfSide(&out_.a, out_.b, 0));
    FW_ASSIGN_OR_RETURN(const std::vector<FoundRun> b, RunsOfSide(&out_.b, out_.a, 1));
    FW_RETURN_IF_ERROR(ReadSaid(a, b));
    Figures(a, b);
    Differences(a, b);
    return std::move(out_);
  }

 private:
  Status Name(const std::string& name, ComparedSide* side) {
    side->name = name;
    if (const auto record = memory_.jobs().FindJob(name)) {
      side->is_job = true;
      for (const jobs::IntervalRecord& i :
           memory_.jobs().Intervals(0, memory_.now() + kMicrosPerMinute, record->id)) {
        const Micros to = std::min(i.to, memory_.now());
        side->window.from = side->window.from == 0 ? i.from : std::min(side->window.from, i.from);
        side->window.to = std::max(side->window.to, to);
      }
      if (side->window.from >= side->window.to)
        return NotFound(
            "cannot compare job {}: nothing is known of when it held GPUs (intervals "
            "are kept for a limited time)",
            name);
      return absl::OkStatus();
    }
    const size_t slash = name.find('/');
    if (slash != std::string::npos) {
      const auto from = ParseTime(name.substr(0, slash), memory_.now());
      const auto to = ParseTime(name.substr(slash + 1), memory_.now());
      if (from.ok() && to.ok()) {
        side->window = {*from, *to};
        return store::CheckWindow(side->window);
      }
    }
    return NotFound(
        "cannot compare '{}': it is no job that is known, and no window FROM/TO such as "
        "2026-11-01/2026-11-08 or -2d/-1d",
        name);
  }

  // Both in one look where they are near each other, with what was before the earlier of two runs.
  Status Gather(const ComparedSide& a, const ComparedSide& b, WorkflowSet* set) {
    WorkflowFilter filter{.workflow = question_.workflow, .job = "", .user = question_.user};
    filter.unnamed = question_.workflow.empty();
    Window w = a.window;
    if (a.is_job) {
      filter = {.workflow = "", .job = a.name, .user = "", .unnamed = true};
      w.from = std::max<Micros>(1, w.from - kScatterWindow);
      // A job of the same workflow comes along.
      if (b.is_job) w = {std::min(w.from, b.window.from), std::max(w.to, b.window.to)};
      if (w.to - w.from > kLongestCompared) w = {a.window.from - kScatterWindow, a.window.to};
    }
    if (w.to - w.from > kLongestCompared) {
      return InvalidArgument("cannot compare {}: {} is longer than {}", a.name,
                             FormatDuration(w.to - w.from), FormatDuration(kLongestCompared));
    }
    FW_ASSIGN_OR_RETURN(*set, GatherWorkflows(query_, w, filter, 0));
    return absl::OkStatus();
  }

  static std::vector<FoundRun> Find(const WorkflowSet& set, const ComparedSide& side) {
    std::vector<FoundRun> found;
    for (size_t w = 0; w < set.workflows.size(); ++w)
      for (size_t r = 0; r < set.workflows[w].runs.size(); ++r)
        if (!side.is_job || set.workflows[w].runs[r].job == side.name)
          found.push_back({&set, w, r});
    return found;
  }

  StatusOr<std::vector<FoundRun>> RunsOfSide(ComparedSide* side, const ComparedSide& other,
                                             int which) {
    std::vector<FoundRun> found;
    if (which == 0 || side->is_job) found = Find(sets_[0], *side);
    if (which == 1 && (!side->is_job || found.empty())) {
      FW_RETURN_IF_ERROR(Gather(*side, other, &sets_[1]));
      found = Find(sets_[1], *side);
    }
    if (side->is_job) {
      if (found.empty()) {
        return NotFound("cannot compare job {}: no minute of it is stored any more, or none yet",
                        side->name);
      }
      found.resize(1);
      const fleet::WorkflowRuns& w = found[0].set->workflows[found[0].workflow];
      side->workflow = w.name;
      side->user = w.user;
    }
    side->runs = found.size();
    return found;
  }

  Status ReadSaid(const std::vector<FoundRun>& a, const std::vector<FoundRun>& b) {
    absl::flat_hash_map<int32_t, std::string> jobs;  // by claim
    std::set<std::string> wanted;
    for (const WorkflowSet& set : sets_)
      for (const fleet::WorkflowRuns& w : set.workflows)
        for (const fleet::WorkflowRun& r : w.runs) wanted.insert(r.job);
    FW_ASSIGN_OR_RETURN(const auto claims, query_.store().Claims());
    std::vector<int32_t> ids;
    for (const telemetry::ApplicationClaim& c : claims) {
      if (!wanted.contains(c.job)) continue;
      jobs[c.id] = c.job;
      ids.push_back(c.id);
    }
    if (ids.empty()) return absl::OkStatus();
    for (const WorkflowSet& set : sets_) {
      if (set.window.from >= set.window.to) continue;
      FW_ASSIGN_OR_RETURN(const auto usage, query_.store().ApplicationByClaim(set.window, ids));
      // The claim with the most time behind it stands for the job in each look.
      SaidByJob said;
      for (const store::ApplicationUsage& u : usage) {
        ApplicationSums& of = said[jobs[u.claim]];
        if (of.span_s <= u.sums.span_s) of = u.sums;
      }
      said_[&set - sets_] = std::move(said);
    }
    return absl::OkStatus();
  }

  Numbers NumbersOf(const std::vector<FoundRun>& runs) const {
    Numbers n;
    for (const FoundRun& f : runs) {
      for (const fleet::RunStep& s : f.of().steps) n.sums += s.sums;
      n.gpu_seconds += f.of().gpu_seconds;
      const SaidByJob& said = said_[f.set - sets_];
      if (const auto s = said.find(f.of().job); s != said.end()) n.said += s->second;
    }
    return n;
  }

  // Runs of the workflow that may be held against `run`.
  std::vector<FoundRun> Alike(const std::vector<FoundRun>& side) const {
    std::vector<FoundRun> out;
    if (side.empty()) return out;
    const FoundRun& like = side.front();
    // Jobs without a workflow are no runs of one.
    if (like.set->workflows[like.workflow].name.empty()) return out;
    const auto& runs = like.set->workflows[like.workflow].runs;
    for (size_t r = 0; r < runs.size(); ++r) {
      double busy = 0;
      for (const fleet::RunStep& s : runs[r].steps) busy += s.sums.busy_s;
      const auto gpus = static_cast<double>(std::max<int64_t>(1, runs[r].setting.gpus));
      if (busy >= fleet::kLeastBusySeconds * gpus &&
          !fleet::SettingDifference(runs[r].setting, like.of().setting))
        out.push_back({like.set, like.workflow, r});
    }
    return out;
  }

  // Standard deviation of the logarithm of one run's figure about its level.
  std::pair<std::optional<double>, size_t> ScatterOf(const FigureSpec& spec,
                                                     const std::vector<FoundRun>& runs) const {
    std::vector<double> values;
    for (const FoundRun& f : runs) {
      const auto v = spec.of(NumbersOf({f}));
      if (v && *v > 0) values.push_back(std::log(*v));
    }
    if (values.size() < kLeastRunsForScatter) return {std::nullopt, values.size()};
    return {std::sqrt(fleet::VarianceOf(values).variance), values.size()};
  }

  void Figures(const std::vector<FoundRun>& a, const std::vector<FoundRun>& b) {
    // What one workflow's runs scatter says nothing of windows of many.
    const bool one = out_.a.is_job || !question_.workflow.empty();
    const std::vector<FoundRun> alike = one ? Alike(a) : std::vector<FoundRun>();
    const Numbers of_a = NumbersOf(a), of_b = NumbersOf(b);
    for (const FigureSpec& spec : kComparedFigures) {
      ComparedFigure& f = out_.figures.emplace_back();
      f.name = spec.name;
      f.unit = spec.unit;
      f.a = spec.of(of_a);
      f.b = spec.of(of_b);
      if (f.a && f.b && *f.a > 0) f.change = *f.b / *f.a - 1;
      // How long a run is says nothing of how good it is.
      if (spec.unit == FigureUnit::kGpuSeconds) continue;
      const auto [scatter, runs] = ScatterOf(spec, alike);
      f.scatter_runs = runs;
      if (!scatter) continue;
      f.scatter = std::expm1(*scatter);
      if (!f.change || *f.change <= -1 || a.empty() || b.empty()) continue;
      const double of_difference = *scatter * std::sqrt(1 / static_cast<double>(a.size()) +
                                                        1 / static_cast<double>(b.size()));
      f.unusual = std::abs(std::log1p(*f.change)) > kUsualDifference * of_difference;
    }
    if (!one) {
      out_.notes.push_back(
          "without a workflow there is no scatter of runs to hold the changes against");
    } else if (alike.size() < kLeastRunsForScatter) {
      out_.notes.push_back(fmt::format(
          "{} runs of the workflow have this setting and enough time at work: too few to say what "
          "is usual",
          alike.size()));
    }
  }

  template <typename F>
  static std::set<std::string> TextsOn(const std::vector<FoundRun>& runs, F&& of) {
    std::set<std::string> out;
    for (const FoundRun& f : runs) of(f, &out);
    out.erase("");
    return out;
  }

  static std::string Join(const std::set<std::string>& texts) {
    std::vector<std::string> first(
        texts.begin(),
        std::next(texts.begin(), std::min<std::ptrdiff_t>(kMostNamed, std::ssize(texts))));
    std::string out = fmt::format("{}", fmt::join(first, ", "));
    if (texts.size() > first.size())
      out += fmt::format(" and {} more", texts.size() - first.size());
    return out;
  }

  void Differences(const std::vector<FoundRun>& a, const std::vector<FoundRun>& b) {
    const auto differ = [&](std::string_view what, auto of) {
      const std::set<std::string> x = TextsOn(a, of), y = TextsOn(b, of);
      if (x != y) out_.differences.push_back({what, Join(x), Join(y)});
    };
    const auto setting = [](std::string fleet::RunSetting::*m) {
      return [m](const FoundRun& f, std::set<std::string>* to) { to->insert(f.of().setting.*m); };
    };
    const auto place = [](std::string RunPlace::*m) {
      return [m](const FoundRun& f, std::set<std::string>* to) { to->insert(f.place().*m); };
    };
    const auto list = [](std::vector<std::string> RunPlace::*m) {
      return [m](const FoundRun& f, std::set<std::string>* to) {
        to->insert((f.place().*m).begin(), (f.place().*m).end());
      };
    };
    differ("workflow", [](const FoundRun& f, std::set<std::string>* to) {
      to->insert(f.set->workflows[f.workflow].name);
    });
    differ("user", [](const FoundRun& f, std::set<std::string>* to) {
      to->insert(f.set->workflows[f.workflow].user);
    });
    differ("gpus", [](const FoundRun& f, std::set<std::string>* to) {
      if (f.of().setting.gpus > 0) to->insert(std::to_string(f.of().setting.gpus));
    });
    differ("gpu_model", setting(&fleet::RunSetting::gpu_model));
    differ("model", setting(&fleet::RunSetting::model));
    differ("precision", setting(&fleet::RunSetting::precision));
    differ("sequence_length", [](const FoundRun& f, std::set<std::string>* to) {
      if (f.place().seq_len > 0) to->insert(std::to_string(f.place().seq_len));
    });
    differ("commit", place(&RunPlace::commit));
    differ("container", place(&RunPlace::container_image));
    differ("recomputation", place(&RunPlace::recompute));
    differ("formula_version", place(&RunPlace::formula_version));
    differ("driver", list(&RunPlace::drivers));
    differ("nodes", list(&RunPlace::nodes));
  }

  const Query& query_;
  const Memory& memory_;
  const CompareQuestion& question_;
  WorkflowSet sets_[2];  // the second only where the first has not both
  SaidByJob said_[2];
  Comparison out_;
};

}  // namespace

StatusOr<Comparison> Compare(const Query& query, const CompareQuestion& question) {
  return Comparer(query, question).Run();
}

}  // namespace flopwatch::query
