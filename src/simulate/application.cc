#include "simulate/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "efficiency/mfu.h"
#include "hardware/accelerator.h"
#include "simulate/fleet_model.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

using telemetry::ApplicationField;
using telemetry::ApplicationSample;

constexpr double kLogSeconds = 60;   // about one sample in that time
constexpr double kHeartbeat = 1800;  // in a pause a report of no progress comes that often
// Shares are of FLOPs. The effective peak is kPrecisionChange times BF16's (activity_builder.h).
constexpr std::string_view kMix = "bf16=0.48,fp8=0.52";

// Time with one rate of tensor work on the job's first GPU.
struct Piece {
  double from = 0, to = 0;  // seconds of the window
  double hz = 0;            // tensor-active cycles a second; 0 = pause
  bool silent = false;      // suspended: not even a report of nothing done
};

// A suspended job stops at `at` and goes on `pause` seconds later.
std::vector<Piece> Suspend(const std::vector<Piece>& pieces, double at, double pause, double to) {
  std::vector<Piece> out;
  for (const Piece& p : pieces) {
    if (p.from < at) out.push_back({p.from, std::min(p.to, at), p.hz});
    if (p.from <= at && at < p.to) out.push_back({at, std::min(to, at + pause), 0, true});
    const double from = std::max(p.from, at) + pause, until = std::min(to, p.to + pause);
    if (from < until) out.push_back({from, until, p.hz});
  }
  return out;
}

std::vector<Piece> PiecesOf(const Fleet::Model& m, const Stint& stint, int32_t to) {
  std::vector<Piece> out;
  const auto phases = m.activity->PhasesOf(stint);
  const int32_t length = m.activity->ProgramLength(stint);
  int64_t base =
      static_cast<int64_t>(stint.from) - stint.offset;  // when this round of the program began
  while (base + length <= stint.from) base += length;
  for (; base < to && length > 0; base += length) {
    for (size_t i = 0; i < phases.size(); ++i) {
      const int64_t end = base + (i + 1 < phases.size() ? phases[i + 1].start : length);
      const double from =
          static_cast<double>(std::max<int64_t>(base + phases[i].start, stint.from));
      const double until = static_cast<double>(std::min<int64_t>(end, to));
      if (from >= until) continue;
      const double hz = phases[i].kind == PhaseKind::kBusy
                            ? static_cast<double>(phases[i].rates.tensor_hz) * stint.scale / 65536
                            : 0;
      // Without a process there is nobody to report that nothing is done.
      out.push_back({from, until, hz, phases[i].memory == HeldMemory::kNone});
    }
  }
  const Job& job = m.plan.jobs[stint.job];
  const int32_t pause = job.Suspended(stint.from, to);
  if (pause == 0) return out;
  return Suspend(out, std::max(job.suspend_from, stint.from), pause, to);
}

// The stints by job; null where none is on a lane within the window.
std::vector<const Stint*> FirstStints(const Fleet::Model& m) {
  std::vector<const Stint*> first(m.plan.jobs.size());
  for (const Stint& s : m.activity->AllStints()) {
    if (s.rank != 0 || m.activity->reported(s.job).mfu <= 0) continue;
    if (first[s.job] == nullptr || s.from < first[s.job]->from) first[s.job] = &s;
  }
  return first;
}

// A model that is trained instead of another: the first that `key` draws with another
// configuration; the same one where the jobs' size knows no other.
const Counted& AnotherModel(const Counted& than, uint64_t key, int gpus, double ratio) {
  for (int i = 0; i < 64; ++i) {
    const Counted& other = CountedRight(Mix(key + i), gpus, ratio, 1);
    if (other.config != than.config) return other;
  }
  return than;
}

bool IsUnusedGpus(const Fleet::Model& m, const TruthEvent& e) {
  return e.planted >= 0 && m.activity->planted()[e.planted].kind == IncidentKind::kIdleUnusedGpu;
}

double PeakTflops(const hardware::Accelerator& gpu, bool mixed) {
  if (mixed) {
    const auto mix = efficiency::ParsePrecisionMix(kMix);
    if (mix.ok()) {
      const auto peak = efficiency::EffectivePeakOf(gpu, *mix);
      if (peak.ok()) return peak->tflops;
    }
  }
  const auto peak = hardware::PeakOf(gpu, hardware::Precision::kBf16);
  return peak.ok() ? peak->tflops : 0;
}

// How a training run's loss falls: a power of the tokens seen, to what is left (the shape of
// scaling laws; the numbers are invented).
double LossAt(double tokens) { return 1.75 + 8.5 * std::pow(1 + tokens / 2e8, -.28); }

class Walk {
 public:
  Walk(const Fleet::Model& m, const Application& a, const Stint& stint)
      : m_(m), a_(a), pieces_(PiecesOf(m, stint, a.to)) {
    while (at_ < pieces_.size() && !(pieces_[at_].hz > 0)) ++at_;
    now_ = begun_ = last_ = at_ < pieces_.size() ? pieces_[at_].from : 0;
    step_ = a.first_step;
    const int32_t planted = m.activity->PlantedIn(a.job);
    if (planted >= 0 && m.activity->planted()[planted].kind == IncidentKind::kRestart)
      restart_ = &m.activity->planted()[planted];
  }

  // The next sample; none at the end of the job.
  bool Next(ApplicationSample* out) {
    double work = left_ > 0 ? left_ : static_cast<double>(a_.log_every) * a_.step_cycles;
    left_ = 0;
    while (at_ < pieces_.size()) {
      const Piece& p = pieces_[at_];
      now_ = std::max(now_, p.from);
      if (p.silent && restart_ != nullptr && p.from < restart_->to && p.to > restart_->from) {
        Restart();
        work = static_cast<double>(a_.log_every) * a_.step_cycles;
        continue;
      }
      if (p.hz > 0) rate_ = p.hz;
      const double possible = (p.to - now_) * p.hz;
      if (p.hz > 0 && possible >= work) {
        now_ += work / p.hz;
        step_ += a_.log_every;
        Write(out);
        return true;
      }
      if (p.hz <= 0 && !p.silent && begun_ + kHeartbeat < p.to && begun_ + kHeartbeat > now_) {
        now_ = begun_ + kHeartbeat;
        left_ = work;
        WriteNothingDone(out);
        return true;
      }
      work -= possible;
      now_ = p.to;
      ++at_;
    }
    return false;
  }

 private:
  // Another process goes on where the last checkpoint was: what was done since is done again, and
  // its clock begins with its first step.
  void Restart() {
    const double lost = restart_->size * rate_ / a_.step_cycles;
    const auto steps =
        static_cast<int64_t>(lost / static_cast<double>(a_.log_every)) * a_.log_every;
    step_ = std::max(a_.first_step, step_ - steps);
    now_ = begun_ = last_ = restart_->to;
    restart_ = nullptr;
    ++at_;
  }

  void Write(ApplicationSample* out) {
    const telemetry::ApplicationClaim& c = a_.claim;
    const uint64_t h =
        Key(m_.options.seed, Purpose::kApplication, a_.job, static_cast<uint64_t>(step_));
    Draws draws(h);
    // A step's end is known to a fifth of a per cent of the interval: the loop's own clock.
    const double interval = now_ - begun_;
    const double end = now_ - .002 * interval * draws.Unit();
    // Whole milliseconds of absolute time, so that spans touch each other.
    const int64_t span =
        std::max<int64_t>(1, std::llround(end * 1000) - std::llround(last_ * 1000));
    *out = {};
    out->ts = m_.options.start + std::llround(end * 1000) * kMicrosPerMilli;
    out->span_ms =
        span * kMicrosPerMilli > telemetry::kMaxApplicationSpan ? 0 : static_cast<int32_t>(span);
    out->step = step_;
    const double tokens = static_cast<double>(*c.global_batch * *c.seq_len);
    const double rate =
        static_cast<double>(a_.log_every) * tokens / (static_cast<double>(span) / 1000);
    const double flops = rate * *c.training_flops_per_token / static_cast<double>(*c.gpus) / 1e12;
    (*out)[ApplicationField::kTokensPerS] = rate;
    (*out)[ApplicationField::kTflopsPerGpu] = flops;
    (*out)[ApplicationField::kMfu] = flops / *c.peak_tflops;
    (*out)[ApplicationField::kStepTimeS] =
        static_cast<double>(span) / 1000 / static_cast<double>(a_.log_every);
    const double seen = tokens * static_cast<double>(step_);
    (*out)[ApplicationField::kTokens] = seen;
    (*out)[ApplicationField::kLoss] = LossAt(seen) * (1 + .006 * draws.Normal());
    (*out)[ApplicationField::kGradNorm] =
        (.25 + 2.5 * std::pow(1 + static_cast<double>(step_) / 50, -.5)) *
        std::exp(.12 * draws.Normal());
    Spoil(end, out);
    last_ = end;
    begun_ = now_;
  }

  // What was planted of the job's own numbers.
  void Spoil(double end, ApplicationSample* out) {
    using enum IncidentKind;
    const PlantedIncident* const p = m_.activity->ReportedWrong(a_.job);
    if (p == nullptr || end < p->from) return;
    double& loss = *(*out)[ApplicationField::kLoss];
    const double bad = p->sign == "infinite" ? std::numeric_limits<double>::infinity()
                                             : std::numeric_limits<double>::quiet_NaN();
    if (p->kind == kLossOnce) {
      if (!std::exchange(spoilt_, true)) loss = p->sign == "infinite" ? loss * p->size : bad;
    } else if (end < p->to) {
      if (p->kind == kLossNotFinite) loss = bad;
      if (p->kind == kLossSpike) loss *= p->size;
      if (p->kind == kGradNorm) *(*out)[ApplicationField::kGradNorm] *= p->size;
    }
  }

  // An exporter of gauges goes on while the loop waits: no step, no tokens.
  void WriteNothingDone(ApplicationSample* out) {
    *out = {};
    out->ts = m_.options.start + std::llround(now_ * 1000) * kMicrosPerMilli;
    out->span_ms = static_cast<int32_t>(std::llround(now_ * 1000) - std::llround(last_ * 1000));
    out->step = step_;
    (*out)[ApplicationField::kMfu] = 0;
    (*out)[ApplicationField::kTokensPerS] = 0;
    (*out)[ApplicationField::kTflopsPerGpu] = 0;
    last_ = begun_ = now_;
  }

  const Fleet::Model& m_;
  const Application& a_;
  std::vector<Piece> pieces_;
  double left_ = 0;  // work of the next sample that was to do at a report of nothing; 0 = all of it
  size_t at_ = 0;
  double now_ = 0, begun_ = 0, last_ = 0;
  int64_t step_ = 0;
  bool spoilt_ = false;                       // by what happens once
  const PlantedIncident* restart_ = nullptr;  // that is to come
  double rate_ = 0;                           // of the last piece with work
};

}  // namespace

std::string CommitOf(const Fleet::Model& m, int32_t workflow, int32_t run) {
  const Workflow& w = m.demand->workflows()[workflow];
  if (w.size_class < 0 || m.spec.sizes[w.size_class].mfu_mean <= 0) return "";
  const auto key = [&](uint64_t k) {
    return Key(m.options.seed, Purpose::kApplication, w.key, (1ull << 33) + k);
  };
  const uint32_t every = 5 + Below(key(0), 12);
  uint64_t epoch = (static_cast<uint32_t>(run) + Below(key(1), every)) / every;
  for (const PlantedIncident& p : m.activity->planted()) {
    if (p.workflow != workflow || GroupOf(p.kind) != IncidentGroup::kRegression ||
        FamilyOf(p.kind) == simulate::Family::kClock)
      continue;
    if ((key(2) & 1) != 0 && run >= p.run) epoch += 1ull << 32;
  }
  return fmt::format("{:012x}", key(3 + epoch) & 0xffffffffffff);
}

std::vector<Application> Applications(const Fleet& fleet) {
  const Fleet::Model& m = fleet.model();
  const std::vector<const Stint*> first = FirstStints(m);
  std::map<int32_t, int32_t> idle;  // GPUs that a job holds and never uses
  for (const TruthEvent& e : m.activity->events())
    if (e.kind == TruthKind::kIdleGpus || IsUnusedGpus(m, e))
      idle[e.job] += static_cast<int32_t>(e.size);
  std::vector<Application> out;
  for (size_t j = 0; j < m.plan.jobs.size(); ++j) {
    if (first[j] == nullptr) continue;
    const Job& job = m.plan.jobs[j];
    const Reported& said = m.activity->reported(static_cast<int32_t>(j));
    const Workflow& workflow = m.demand->workflows()[job.workflow];
    const SizeClass& size = m.spec.sizes[workflow.size_class];
    const GpuModel& gpu = *m.spec.clusters[job.cluster].model;
    const auto part = hardware::Catalog::Builtin().Find(gpu.name);
    if (!part.ok()) continue;
    const uint64_t h = Key(m.options.seed, Purpose::kApplication, workflow.key, 1u << 31);

    Application a;
    a.job = static_cast<int32_t>(j);
    a.lane = first[j]->lane;
    a.from = first[j]->from;
    a.to = std::min(job.end, m.plan.horizon);
    a.per_ofu = said.per_ofu;
    a.full_recompute = said.full_recompute;
    if (said.inflation > 1) {
      a.miscount = size.miscount;
      a.inflation = said.inflation;
      a.model = &CountedWrong(size.miscount);
      // The paper's latent mixture recomputes its activations, which is what its corrected MFU
      // leaves open: 18.45 is 27.9 % below the OFU of 25.58.
      a.full_recompute = size.miscount == Miscount::kLatentMoe;
    } else {
      const double usual =
          said.full_recompute ? 1 / kTilePadding : 1 / (1 - std::clamp(size.overstated, -.9, .9));
      a.model = &CountedRight(Mix(h), job.gpus, usual, said.full_recompute ? 12 : 3);
      if (said.model != 0) a.model = &AnotherModel(*a.model, said.model, job.gpus, usual);
    }
    telemetry::ApplicationClaim& c = a.claim;
    c.job = m.JobKey(a.job);
    c.first_seen = m.options.start + a.from * kMicrosPerSecond;
    c.source = telemetry::ApplicationSource::kPrometheus;
    c.convention = a.model->convention;
    c.formula_version = a.model->version;
    c.gpu = gpu.name;
    c.precision = said.mixed_precision ? kMix : "bf16";
    // A quarter say nothing of recomputation; of the miscounted ones that recompute, half.
    const bool silent = (Mix(h + 1) & 3) == 0;
    if (a.full_recompute)
      c.recompute = (a.miscount != Miscount::kNone && (Mix(h + 1) & 1) == 0) ? "" : "full";
    else
      c.recompute = silent ? "" : (Mix(h + 2) & 1) != 0 ? "none" : "selective";
    c.model_config = a.model->config;
    c.commit = CommitOf(m, job.workflow, job.run);
    c.peak_tflops = PeakTflops(**part, said.mixed_precision);
    c.gpus = job.gpus - idle[a.job];
    c.seq_len = a.model->seq_len;
    c.training_flops_per_token = a.model->counted;

    // Steps of 2 to 16 s at the MFU the job has while it steps; batches are whole sequences.
    const double wanted = 2 * std::pow(8, Unit(Mix(h + 3)));
    const double rate = (said.usual_mfu > 0 ? said.usual_mfu : said.mfu) * *c.peak_tflops * 1e12 *
                        static_cast<double>(*c.gpus) / a.model->counted;
    c.global_batch =
        std::max<int64_t>(1, std::llround(rate * wanted / static_cast<double>(*c.seq_len)));
    const double step_flops = static_cast<double>(*c.global_batch * *c.seq_len) * a.model->counted;
    // MFU = k OFU and OFU = cycles / (tensor clock x time) give the cycles of a step.
    a.step_cycles = step_flops * gpu.tensor_max_mhz * 1e6 /
                    (a.per_ofu * *c.peak_tflops * 1e12 * static_cast<double>(*c.gpus));
    const double step_s = static_cast<double>(*c.global_batch * *c.seq_len) / rate;
    a.log_every = 1;
    for (const int64_t n : {2, 5, 10, 20, 50})
      if (static_cast<double>(n) * step_s <= 1.2 * kLogSeconds) a.log_every = n;
    if (job.start < 0)
      a.first_step = static_cast<int64_t>(-.9 * job.start / step_s) / a.log_every * a.log_every;
    out.push_back(std::move(a));
  }
  return out;
}

namespace {

template <typename F>
void EachSample(const Fleet& fleet, const Application& a, F&& use) {
  const Fleet::Model& m = fleet.model();
  const Stint* stint = nullptr;
  for (const Stint& s : m.activity->Stints(a.lane))
    if (s.job == a.job && s.rank == 0 && (stint == nullptr || s.from < stint->from)) stint = &s;
  if (stint == nullptr) return;
  Walk walk(m, a, *stint);
  ApplicationSample sample;
  while (walk.Next(&sample))
    if (!use(sample)) return;
}

}  // namespace

std::vector<ApplicationSample> SamplesOf(const Fleet& fleet, const Application& a, Micros from,
                                         Micros to) {
  std::vector<ApplicationSample> out;
  EachSample(fleet, a, [&](const ApplicationSample& s) {
    if (s.ts > to) return false;
    if (s.ts > from) out.push_back(s);
    return true;
  });
  return out;
}

std::optional<ApplicationSample> LastSampleOf(const Fleet& fleet, const Application& a,
                                              Micros now) {
  const Micros start = fleet.options().start;
  if (now < start + a.from * kMicrosPerSecond || now > start + a.to * kMicrosPerSecond)
    return std::nullopt;
  std::optional<ApplicationSample> out;
  EachSample(fleet, a, [&](const ApplicationSample& s) {
    if (s.ts > now) return false;
    out = s;
    return true;
  });
  return out;
}

namespace {

std::string Escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\\' || c == '"') out += '\\';
    out += c;
  }
  return out;
}

}  // namespace

void RenderApplications(const Fleet& fleet, const std::vector<Application>& applications,
                        Micros now, std::string* out) {
  struct Metric {
    std::string_view name, help;
    ApplicationField field;
  };
  static constexpr std::array<Metric, 7> kMetrics = {{
      {"mfu", "Model FLOPs utilisation, by the convention of the label, 0 to 1",
       ApplicationField::kMfu},
      {"tokens_per_s", "Tokens a second of the whole job", ApplicationField::kTokensPerS},
      {"tflops_per_gpu", "Model TFLOP/s of one GPU", ApplicationField::kTflopsPerGpu},
      {"step_time_s", "Mean time of a step", ApplicationField::kStepTimeS},
      {"loss", "Training loss", ApplicationField::kLoss},
      {"grad_norm", "Norm of the gradient", ApplicationField::kGradNorm},
      {"tokens", "Tokens consumed since the start of training", ApplicationField::kTokens},
  }};
  struct Line {
    std::string labels, stamp;
    ApplicationSample sample;
  };
  std::vector<Line> lines;
  for (const Application& a : applications) {
    const auto sample = LastSampleOf(fleet, a, now);
    if (!sample) continue;
    const telemetry::ApplicationClaim& c = a.claim;
    Line& line = lines.emplace_back();
    line.sample = *sample;
    line.labels = fmt::format(
        "{{job_id=\"{}\",rank=\"0\",convention=\"{}\",formula_version=\"{}\",gpu_model=\"{}\","
        "precision=\"{}\",recompute=\"{}\","
        "peak_tflops=\"{}\",gpus=\"{}\",seq_len=\"{}\",global_batch=\"{}\",training_flops_per_"
        "token=\"{}\",commit=\"{}\",model_config=\"{}\"}}",
        c.job, c.convention, c.formula_version, c.gpu, c.precision, c.recompute, *c.peak_tflops,
        *c.gpus, *c.seq_len, *c.global_batch, *c.training_flops_per_token, c.commit,
        Escaped(c.model_config));
    line.stamp = fmt::format(" {}", sample->ts / kMicrosPerMilli);
  }
  out->clear();
  if (lines.empty()) return;
  for (const Metric& metric : kMetrics) {
    *out += fmt::format("# HELP flopwatch_app_{0} {1}\n# TYPE flopwatch_app_{0} gauge\n",
                        metric.name, metric.help);
    for (const Line& line : lines)
      if (const auto& v = line.sample[metric.field])
        *out += fmt::format("flopwatch_app_{}{} {}{}\n", metric.name, line.labels, *v, line.stamp);
  }
  *out += "# HELP flopwatch_app_step Steps done\n# TYPE flopwatch_app_step gauge\n";
  for (const Line& line : lines)
    *out += fmt::format("flopwatch_app_step{} {}{}\n", line.labels, *line.sample.step, line.stamp);
}

}  // namespace flopwatch::simulate
