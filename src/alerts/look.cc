#include "alerts/look.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <tuple>
#include <utility>

#include "alerts/engine.h"

namespace flopwatch::alerts {
namespace {

using ingest::GpuNow;
using store::UsageSums;

constexpr double kNotKnown = std::numeric_limits<double>::quiet_NaN();
// Of a GPU beside its job's others by one reading.
constexpr double kMostStep = 0.2;

// FNV-1a: keys are in the state, and must be the same after a restart.
uint64_t KeyOf(std::string_view kind, std::string_view name) {
  uint64_t hash = 14695981039346656037ull;
  for (const std::string_view part : {kind, name})
    for (const char c : part) hash = (hash ^ static_cast<uint8_t>(c)) * 1099511628211ull;
  return hash == 0 ? 1 : hash;
}

double Ratio(double sum, double of) { return of > 0 ? sum / of : kNotKnown; }

template <typename T>
double Median(std::vector<T>* values) {
  if (values->empty()) return kNotKnown;
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return static_cast<double>(*middle);
}

// OFU while kernels run: pauses are of the duty cycle.
double BusyOfu(double ofu, double duty) { return duty >= kLeastDuty ? ofu / duty : kNotKnown; }

// The rules that find a value of a GPU wrong which is there all the same.
struct Wrong {
  uint32_t tensor = 0, sm_active = 0, duty = 0, power = 0, clock = 0;
};
const Wrong& WrongBy() {
  static const Wrong wrong = [] {
    Wrong out;
    for (const efficiency::CounterRule& rule : efficiency::CounterRules()) {
      using enum efficiency::CounterFault;
      if (rule.fault == kMissing || rule.fault == kRenamed || rule.fault == kUndecided) continue;
      const uint32_t bit = 1u << static_cast<unsigned>(rule.id);
      const auto of = [&](std::string_view counter, uint32_t* mask) {
        if (rule.counter.empty() || rule.counter == counter) *mask |= bit;
      };
      of("tensor_active", &out.tensor);
      of("sm_active", &out.sm_active);
      of("gpu_util", &out.duty);
      of("power_w", &out.power);
      of("sm_clock_mhz", &out.clock);
    }
    return out;
  }();
  return wrong;
}

// Nobody is accused by a counter that cannot be believed: its value is not known.
void LeaveOutWrong(GpuNow* gpu) {
  const uint32_t found = gpu->counters.found;
  if (found == 0) return;
  const Wrong& wrong = WrongBy();
  if ((found & wrong.tensor) != 0) gpu->tensor_active = kNotKnown;
  if ((found & wrong.sm_active) != 0) gpu->sm_active = kNotKnown;
  if ((found & wrong.duty) != 0) gpu->gpu_util = kNotKnown;
  if ((found & wrong.power) != 0) gpu->power_w = kNotKnown;
  if ((found & wrong.clock) != 0) gpu->sm_clock_mhz = kNotKnown;
  if ((found & (wrong.tensor | wrong.clock)) != 0) gpu->ofu = kNotKnown;
}

}  // namespace

void Look::Growth::See(int64_t value) {
  if (value < 0) return;
  if (total >= 0 && value > total) now += value - total;
  total = value;  // one that went back was reset
}

Look::Board& Look::BoardOf(int32_t entity) {
  const auto at = static_cast<size_t>(entity);
  if (at >= boards_.size()) boards_.resize(at + 1);
  Board& board = boards_[at];
  if (board.key != 0) return board;
  const auto record = memory_.registry().entity(entity);
  const std::string uuid = record ? record->key.uuid : std::string();
  board.key = KeyOf(record && record->key.gpu_instance >= 0
                        ? "gpu instance " + std::to_string(record->key.gpu_instance)
                        : "gpu",
                    uuid);
  board.entity = entity;
  if (const auto seen = xids_.find(uuid); seen != xids_.end()) {
    board.xid = seen->second.xid;
    board.xid_errors = seen->second.errors;
  }
  return board;
}

// Names of nodes are compared once, not in every round.
void Look::NameNodes() {
  const uint64_t version = memory_.registry().version();
  if (nodes_version_ == version) return;
  nodes_version_ = version;
  nodes_.clear();
  node_keys_.clear();
  node_of_.clear();
  absl::flat_hash_map<std::string, int32_t> known;
  memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
    const auto at = static_cast<size_t>(e.id);
    if (at >= node_of_.size()) node_of_.resize(at + 1, -1);
    if (e.labels.node.empty()) return;
    const auto [node, is_new] =
        known.try_emplace(e.labels.node, static_cast<int32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back(e.labels.node);
      node_keys_.push_back(KeyOf("node", e.labels.node));
    }
    node_of_[at] = node->second;
  });
}

// What is of later than now stands in the way of what is now (as in ingest::LiveState).
void Look::StepBack(Micros now) {
  window_ = std::min(window_, FloorTo(now, kWindow));
  const auto drop = [now](Ring* ring) {
    std::erase_if(*ring, [now](const Past& past) { return past.to > now; });
  };
  drop(&fleet_);
  reports_.StepBack(now);
  for (auto& [key, past] : jobs_) {
    drop(&past.ring);
    past.baseline.reset();
    std::erase_if(past.lows, [now](const Low& low) { return low.hour > now; });
  }
  for (Board& board : boards_) {
    board.held_at = std::min(board.held_at, now);
    board.row_at = std::min(board.row_at, now);
    board.xid_at = std::min(board.xid_at, now);
    board.beside_at = std::min(board.beside_at, now);
  }
}

void Look::Take(Micros now, Round* round) {
  if (now < last_ - kSetBack) StepBack(now);
  last_ = now;
  ++looks_;
  round->ts = now;
  round->wanted.set(static_cast<size_t>(Quantity::kJobBaselineOfu));  // Baselines()
  for (Subjects& subjects : round->subjects) subjects.Clear();
  accounts_.reset();
  places_.reset();
  round->who = [this](Scope scope, size_t row, Whose whose) { return WhoOf(scope, row, whose); };
  NameNodes();
  ReadGpus(now, round->wanted);
  FinishPeers();
  TakeGpus(now, round);
  TakeNodes(now, round);
  TakeJobs(now, round);
  TakeFleet(now, round);
  window_ = std::max(window_, FloorTo(now, kWindow));
}

// In one pass, because they are more than a cache holds. Instances have no troubles of their own,
// and a GPU that is divided is idle by its own row.
void Look::ReadGpus(Micros now, const QuantitySet& wanted) {
  gpus_.clear();
  peers_.clear();
  peers_at_.clear();
  peers_of_.clear();
  node_now_.assign(nodes_.size(), {});
  const bool powers = wanted[static_cast<size_t>(Quantity::kGpuPowerToJob)],
             ofus = wanted[static_cast<size_t>(Quantity::kGpuOfuToJob)];
  const Micros silent_after = memory_.silent_after();
  int32_t last = -1, last_set = 0;
  memory_.live()->ForEachGpu(0, [&](const GpuNow& stored) {
    if (stored.instance || stored.ts == 0) return;
    gpus_.push_back(stored);
    GpuNow& gpu = gpus_.back();
    LeaveOutWrong(&gpu);
    peers_of_.push_back(-1);
    const auto entity = static_cast<size_t>(gpu.entity);
    if (entity < node_of_.size() && node_of_[entity] >= 0) {
      NodeNow& node = node_now_[static_cast<size_t>(node_of_[entity])];
      node.newest = std::max(node.newest, gpu.ts);
      ++node.gpus;
      node.allocated += gpu.job_set != 0 ? 1 : 0;
    }
    if (gpu.job_set == 0) return;
    if (gpu.job_set != last_set) {  // a job's GPUs are often in a row
      last_set = gpu.job_set;
      const auto [at, is_new] =
          peers_at_.try_emplace(last_set, static_cast<int32_t>(peers_.size()));
      last = at->second;
      if (is_new) {
        peers_.push_back({.set = last_set});
        if (beside_.size() < peers_.size()) beside_.emplace_back();
        Beside& b = beside_[peers_.size() - 1];
        for (auto* values : {&b.clocks, &b.powers, &b.duties, &b.ofus}) values->clear();
      }
    }
    Peers& p = peers_[static_cast<size_t>(last)];
    Beside& b = beside_[static_cast<size_t>(last)];
    peers_of_.back() = last;
    ++p.all;
    if (now - gpu.ts > silent_after) return;
    ++p.fresh;
    if (p.model == -1) p.model = gpu.model;
    if (p.model != gpu.model) p.one_model = false;
    if (!std::isnan(gpu.sm_clock_mhz)) b.clocks.push_back(static_cast<float>(gpu.sm_clock_mhz));
    if (powers && !std::isnan(gpu.power_w)) b.powers.push_back(static_cast<float>(gpu.power_w));
    if (ofus && !std::isnan(gpu.ofu)) b.ofus.push_back(static_cast<float>(gpu.ofu));
    if (std::isnan(gpu.gpu_util)) return;
    ++p.with_duty;
    b.duties.push_back(static_cast<float>(gpu.gpu_util));
    p.duty += gpu.gpu_util;
    p.lowest_duty = std::min(p.lowest_duty, gpu.gpu_util);
  });
}

void Look::FinishPeers() {
  for (size_t k = 0; k < peers_.size(); ++k) {
    Peers& p = peers_[k];
    Beside& b = beside_[k];
    const bool enough = p.one_model && b.clocks.size() >= kFewestPeers;
    const auto median = [&](std::vector<float>* values) {
      return enough && values->size() >= kFewestPeers ? Median(values) : kNotKnown;
    };
    p.median_clock = median(&b.clocks);
    p.median_power = median(&b.powers);
    p.median_duty = median(&b.duties);
    p.median_ofu = median(&b.ofus);
    p.duty = Ratio(p.duty, p.with_duty);
    p.jobs = static_cast<int32_t>(memory_.jobs().SetMembers(p.set).size());
    if (p.with_duty < p.fresh) p.lowest_duty = kNotKnown;  // one that is not known may be lower
  }
}

void Look::TakeGpus(Micros now, Round* round) {
  Subjects& out = round->of(Scope::kGpu);
  out.Resize(Scope::kGpu, gpus_.size(), round->wanted);
  out.holders.resize(gpus_.size());
  out.xid_holders.resize(gpus_.size());
  const Micros piece = FloorTo(now, kNews);
  if (piece != growth_) {
    const bool next = piece == growth_ + kNews;
    for (Board& board : boards_) {
      for (Growth* g : {&board.ecc, &board.remaps, &board.nvlink, &board.replays}) {
        g->before = next ? g->now : 0;
        g->now = 0;
      }
    }
    growth_ = piece;
  }
  for (size_t row = 0; row < gpus_.size(); ++row) {
    const GpuNow& gpu = gpus_[row];
    Board& board = BoardOf(gpu.entity);
    out.keys[row] = board.key;
    out.Set(Quantity::kGpuAge, row, ToSeconds(std::max<Micros>(now - gpu.ts, 0)));
    // Who was the last to hold it still holds it where others of the job are heard. Where none is,
    // nobody knows: a scrape that is lost does not say that the job is over.
    const Peers* const p = PeersOf(row);
    const bool fresh = now - gpu.ts <= memory_.silent_after();
    const bool held = p != nullptr && (fresh || p->fresh > 0);
    if (held || fresh || p == nullptr) {
      out.Set(Quantity::kGpuAllocated, row, held ? 1 : 0);
      out.Set(Quantity::kGpuJobs, row, held ? p->jobs : 0);
    }
    out.holders[row] = static_cast<uint32_t>(gpu.job_set);
    if (fresh) {
      SetGpu(row, gpu, &board, &out);
      SetTroubles(row, gpu, now, &board, &out);
      board.row_at = gpu.ts;
      if (gpu.job_set != 0) board.held_by = gpu.job_set, board.held_at = gpu.ts;
    }
    out.xid_holders[row] = static_cast<uint32_t>(board.xid_set);
  }
}

double Look::MaxClock(int32_t model) {
  auto [known, is_new] = max_clock_.try_emplace(model, kNotKnown);
  if (!is_new) return known->second;
  const auto record = memory_.registry().model(model);
  return known->second = record ? record->tensor_clock_max_mhz.value_or(kNotKnown) : kNotKnown;
}

void Look::SetGpu(size_t row, const GpuNow& gpu, Board* board, Subjects* out) {
  out->Set(Quantity::kGpuOfu, row, gpu.ofu);
  out->Set(Quantity::kGpuTensor, row, gpu.tensor_active);
  out->Set(Quantity::kGpuSmActive, row, gpu.sm_active);
  out->Set(Quantity::kGpuDuty, row, gpu.gpu_util);
  out->Set(Quantity::kGpuActivity, row,  // fmax: of one that is not known and another the other
           std::fmax(std::fmax(gpu.gpu_util, gpu.sm_active), gpu.tensor_active));
  out->Set(Quantity::kGpuPower, row, gpu.power_w);
  out->Set(Quantity::kGpuTemperature, row, gpu.gpu_temp_c);
  out->Set(Quantity::kGpuClock, row, gpu.sm_clock_mhz);
  out->Set(Quantity::kGpuMemory, row, gpu.fb_used_mib);
  out->Set(Quantity::kGpuClockShare, row, gpu.sm_clock_mhz / MaxClock(gpu.model));
  const Peers* const p = PeersOf(row);
  out->Set(Quantity::kGpuJobGpus, row, p == nullptr ? 0 : p->fresh);
  if (p != nullptr) {
    out->Set(Quantity::kGpuJobDuty, row, p->duty);
    SetBesidePeers(row, gpu, *p, board, out);
  }
  using Opinion = efficiency::CounterOpinion;
  if (gpu.counters.opinion != Opinion::kNotJudged)
    out->Set(Quantity::kGpuCounterFault, row, gpu.counters.opinion == Opinion::kFaulty ? 1 : 0);
}

// In a pause of the job there is nothing to compare: what was known of it stays.
void Look::SetBesidePeers(size_t row, const GpuNow& gpu, const Peers& p, Board* of, Subjects* out) {
  Board& board = *of;
  if (board.job_set != gpu.job_set) {
    board.job_set = gpu.job_set;
    board.beside_at = 0;
    board.clock_to_job = board.power_to_job = board.duty_to_job = board.ofu_to_job = kNotKnown;
  }
  if (gpu.ts > board.beside_at && p.median_duty >= kAtWork) {
    // Rows at the edges of a pause have a part of it, each GPU's another one: the first after it
    // says nothing, the last before it little.
    const bool first = board.beside_at == 0 || board.row_at > board.beside_at;
    const double share = std::min(1.0, ToSeconds(gpu.ts - board.row_at) / ToSeconds(kSmoothed));
    board.beside_at = gpu.ts;
    const auto take = [&](double* mean, double value, double median) {
      if (first || std::isnan(value) || !(median > 0)) return;
      if (std::isnan(*mean)) *mean = 1;  // as the others, until it shows another way
      *mean += share * std::clamp(value / median - *mean, -kMostStep, kMostStep);
    };
    take(&board.clock_to_job, gpu.sm_clock_mhz, p.median_clock);
    take(&board.power_to_job, gpu.power_w, p.median_power);
    take(&board.duty_to_job, gpu.gpu_util, p.median_duty);
    take(&board.ofu_to_job, gpu.ofu, p.median_ofu);
  }
  out->Set(Quantity::kGpuClockToJob, row, board.clock_to_job);
  out->Set(Quantity::kGpuPowerToJob, row, board.power_to_job);
  out->Set(Quantity::kGpuDutyToJob, row, board.duty_to_job);
  out->Set(Quantity::kGpuOfuToJob, row, board.ofu_to_job);
}

// Who has an XID that the row is the first to show. Where the row before was another job's, that
// one ended with it: most codes end the process that they come to.
int32_t Look::XidSet(const GpuNow& gpu, const Board& board) {
  if (board.row_at == 0) return 0;  // it came while nobody looked
  const auto just = [&](Micros ts) { return gpu.ts - ts <= kEndedWith; };
  const int32_t before = board.held_at == board.row_at ? board.held_by : 0;  // of the last row
  if (gpu.job_set != 0 && (before == gpu.job_set || before == 0)) return gpu.job_set;
  if (before != 0) return just(board.row_at) ? before : 0;
  return just(board.held_at) ? board.held_by : 0;
}

void Look::SetTroubles(size_t row, const GpuNow& gpu, Micros now, Board* of, Subjects* out) {
  Board& board = *of;
  const ingest::GpuTroubles& t = gpu.troubles;
  if (t.throttle >= 0) out->Set(Quantity::kGpuThrottle, row, static_cast<double>(t.throttle));
  if (t.xid >= 0) {
    // A code that was there when the GPU was seen first is of nobody knows when. The same one again
    // shows in how many the exporter has counted, if it counts; before the first it may say
    // nothing.
    const bool again = board.xid_errors.has_value() && t.xid_errors > *board.xid_errors;
    if (board.xid >= 0 && t.xid != 0 && (t.xid != board.xid || again)) {
      board.xid_at = now;
      board.xid_set = XidSet(gpu, board);
    }
    board.xid = t.xid;
    if (t.xid_errors >= 0 || !board.xid_errors.has_value())
      board.xid_errors = std::max<int64_t>(t.xid_errors, 0);
    const bool is_new = board.xid_at != 0 && now - board.xid_at < kNews;
    out->Set(Quantity::kGpuXid, row, t.xid);
    out->Set(Quantity::kGpuXidNew, row, is_new ? t.xid : 0);
  }
  const auto grown = [&](Growth* growth, int64_t total, Quantity q) {
    growth->See(total);
    if (growth->total >= 0) out->Set(q, row, static_cast<double>(growth->now + growth->before));
  };
  grown(&board.ecc, t.ecc_dbe, Quantity::kGpuEccNew);
  grown(&board.remaps, t.row_remaps, Quantity::kGpuRowRemaps);
  if (t.row_remap_pending >= 0) out->Set(Quantity::kGpuRowRemapPending, row, t.row_remap_pending);
  if (t.row_remap_failed >= 0) out->Set(Quantity::kGpuRowRemapFailed, row, t.row_remap_failed);
  grown(&board.nvlink, t.nvlink_errors, Quantity::kGpuNvlinkErrors);
  grown(&board.replays, t.pcie_replays, Quantity::kGpuPcieReplays);
}

void Look::TakeNodes(Micros now, Round* round) {
  node_rows_.clear();
  for (size_t k = 0; k < node_now_.size(); ++k)
    if (node_now_[k].gpus > 0) node_rows_.push_back(static_cast<int32_t>(k));
  Subjects& out = round->of(Scope::kNode);
  out.Resize(Scope::kNode, node_rows_.size(), round->wanted);
  for (size_t row = 0; row < node_rows_.size(); ++row) {
    const auto k = static_cast<size_t>(node_rows_[row]);
    out.keys[row] = node_keys_[k];
    out.Set(Quantity::kNodeSilence, row, ToSeconds(std::max<Micros>(now - node_now_[k].newest, 0)));
    out.Set(Quantity::kNodeGpus, row, node_now_[k].gpus);
    out.Set(Quantity::kNodeAllocated, row, node_now_[k].allocated);
  }
}

void Look::Keep(Ring* ring, const Past& past, Micros reach) {
  ring->push_back(past);
  while (ring->front().to < past.to - reach) ring->pop_front();
}

void Look::TakeJobs(Micros now, Round* round) {
  const std::vector<store::JobUsage> jobs = memory_.live()->JobsSince(now - kWindow + 1);
  // The GPUs of each job, seen now.
  struct Gpus {
    int fresh = 0, all = 0;
    double lowest_duty = 2;
    bool shared = false;
  };
  absl::flat_hash_map<int32_t, Gpus> of_job;
  for (const Peers& p : peers_) {
    for (const int32_t job : memory_.jobs().SetMembers(p.set)) {
      Gpus& g = of_job[job];
      g.fresh += p.fresh;
      g.all += p.all;
      g.shared |= p.jobs > 1;
      // NaN stays: one that is not known may be lower.
      if (!std::isnan(g.lowest_duty) && !(p.lowest_duty >= g.lowest_duty))
        g.lowest_duty = p.lowest_duty;
    }
  }
  Subjects& out = round->of(Scope::kJob);
  out.Resize(Scope::kJob, jobs.size(), round->wanted);
  job_ids_.clear();
  const bool full = FloorTo(now, kWindow) > window_ && window_ != 0;
  size_t row = 0;
  for (const store::JobUsage& j : jobs) {
    const auto gpus = of_job.find(j.job);
    const auto record = memory_.jobs().job(j.job);
    if (j.job <= 0 || !record || gpus == of_job.end() || gpus->second.fresh == 0) continue;
    const UsageSums& s = j.sums;
    out.keys[row] = KeyOf("job", record->key);
    job_ids_.push_back(j.job);
    const double ofu = s.ofu.Ofu().value_or(kNotKnown), tensor = Ratio(s.tensor_s, s.tensor_span_s),
                 duty = Ratio(s.gpu_util_s, s.gpu_util_span_s),
                 power = Ratio(s.power_j, s.power_span_s), busy = BusyOfu(ofu, duty);
    out.Set(Quantity::kJobOfu, row, ofu);
    out.Set(Quantity::kJobTensor, row, tensor);
    out.Set(Quantity::kJobSmActive, row, Ratio(s.sm_active_s, s.sm_active_span_s));
    out.Set(Quantity::kJobDuty, row, duty);
    out.Set(Quantity::kJobPower, row, power);
    out.Set(Quantity::kJobClock, row, Ratio(s.clock_mhz_s, s.clock_span_s));
    out.Set(Quantity::kJobGpus, row, gpus->second.fresh);
    out.Set(Quantity::kJobCoverage, row, Ratio(s.ofu.computable_s, s.ofu.observed_s));
    out.Set(Quantity::kJobBusyOfu, row, busy);
    out.Set(Quantity::kJobQuietest, row, gpus->second.lowest_duty);
    // A pause and its edges, which a mean over minutes has longer, are neither a drop nor its end.
    const bool at_work = gpus->second.lowest_duty > kLeastDuty && duty >= kLeastWork;
    out.Set(Quantity::kJobBusyDuty, row, at_work ? duty : kNotKnown);
    out.Set(Quantity::kJobLostShare, row,
            1 - static_cast<double>(gpus->second.fresh) / gpus->second.all);
    out.Set(Quantity::kJobShared, row, gpus->second.shared ? 1 : 0);
    JobPast& past = jobs_[record->key];
    past.look = looks_;
    if (full && !std::isnan(busy)) {
      Keep(&past.ring,
           {FloorTo(now, kWindow), static_cast<float>(busy), static_cast<float>(tensor),
            static_cast<float>(power), static_cast<float>(duty)},
           kBaselineReach);
      KeepLow(&past);
    }
    SetBaseline(now, row, &past, &out);
    SetReports(record->key, now, row, &out);
    SetVerdict(record->key, now, row, &out);
    ++row;
  }
  if (full) reports_.Expire(now);
  // Jobs without a row for two hours and more are over.
  absl::erase_if(jobs_, [&](const auto& job) {
    const JobPast& past = job.second;
    return past.look != looks_ && (past.ring.empty() || past.ring.back().to < now - kBaselineReach);
  });
  out.keys.resize(row);
  for (std::vector<double>& column : out.columns)
    if (!column.empty()) column.resize(row);
}

void Look::SetReports(std::string_view job, Micros now, size_t row, Subjects* out) {
  const Reports::Of of = reports_.Get(job, now);
  const std::pair<Quantity, double> values[] = {
      {Quantity::kJobReportAge, of.age_s},
      {Quantity::kJobReportInterval, of.interval_s},
      {Quantity::kJobProgressAge, of.progress_s},
      {Quantity::kJobTokens, of.tokens_per_s},
      {Quantity::kJobBaselineTokens, of.usual_tokens_per_s},
      {Quantity::kJobMfu, of.mfu},
      {Quantity::kJobBaselineMfu, of.usual_mfu},
      {Quantity::kJobReportWindows, of.windows},
      {Quantity::kJobLoss, of.loss},
      {Quantity::kJobBaselineLoss, of.usual_loss},
      {Quantity::kJobLossSpread, of.loss_spread},
      {Quantity::kJobGradNorm, of.grad_norm},
      {Quantity::kJobBaselineGradNorm, of.usual_grad_norm},
      {Quantity::kJobNotFinite, of.not_finite},
  };
  for (const auto& [quantity, value] : values) out->Set(quantity, row, value);
}

void Look::SetVerdict(const std::string& job, Micros now, size_t row, Subjects* out) const {
  if (verdicts_ == nullptr || std::abs(now - judged_) > kJudgedGood) return;
  const auto at = verdicts_->find(job);
  if (at == verdicts_->end()) return;
  const Verdict& v = at->second;
  out->Set(Quantity::kJobDivergence, row, v.divergence);
  out->Set(Quantity::kJobDivergenceFlagged, row, v.divergence_flagged);
  out->Set(Quantity::kJobDivergenceExcess, row, v.divergence_excess);
  out->Set(Quantity::kJobDivergenceCaused, row, v.divergence_caused);
  out->Set(Quantity::kJobHistoryRuns, row, v.history_runs);
  out->Set(Quantity::kJobHistoryOfu, row, v.history_ofu);
  out->Set(Quantity::kJobHistoryScatter, row, v.history_scatter);
  out->Set(Quantity::kJobHistoryLow, row, v.history_low);
}

void Look::KeepLow(JobPast* past) {
  const Ring& ring = past->ring;
  if (ring.size() < 3) return;
  const Past &a = ring[ring.size() - 3], &b = ring[ring.size() - 2], &c = ring.back();
  if (c.to - a.to > 3 * kWindow) return;  // a pause lies between them
  const float mean = (a.ofu + b.ofu + c.ofu) / 3;
  const Micros hour = FloorTo(c.to, kMicrosPerHour);
  if (past->lows.empty() || past->lows.back().hour < hour) {
    past->lows.push_back({hour, mean});
  } else {
    past->lows.back().ofu = std::min(past->lows.back().ofu, mean);
  }
  while (past->lows.front().hour < hour - kLowReach) past->lows.pop_front();
}

void Look::SetBaseline(Micros now, size_t row, JobPast* past, Subjects* out) {
  const auto first = std::ranges::lower_bound(past->ring, now - kBaselineReach, {}, &Past::to),
             end = std::ranges::upper_bound(past->ring, now - kBaselineGap, {}, &Past::to);
  Baseline b;
  if (first < end) b = {first->to, std::prev(end)->to, static_cast<size_t>(end - first)};
  // The windows are others every five minutes, rounds come more often.
  const std::optional<Baseline>& known = past->baseline;
  if (known && known->first == b.first && known->last == b.last && known->windows == b.windows) {
    b = *known;
  } else {
    std::vector<float> ofus, tensors, powers, duties;
    for (auto p = first; p < end; ++p) {
      ofus.push_back(p->ofu);
      if (!std::isnan(p->tensor)) tensors.push_back(p->tensor);
      if (!std::isnan(p->power)) powers.push_back(p->power);
      if (!std::isnan(p->duty)) duties.push_back(p->duty);
    }
    b.ofu = Median(&ofus);
    b.tensor = Median(&tensors);
    b.power = Median(&powers);
    b.duty = Median(&duties);
    b.spread = kNotKnown;
    if (ofus.size() >= 4 && b.ofu > 0) {  // fewer have no middle half
      std::ranges::sort(ofus);
      b.spread = (ofus[ofus.size() * 3 / 4] - ofus[ofus.size() / 4]) / b.ofu;
    }
    past->baseline = b;
  }
  out->Set(Quantity::kJobBaselineWindows, row, static_cast<double>(b.windows));
  out->Set(Quantity::kJobBaselineOfu, row, b.ofu);
  // Where there is no longer past nothing was lower than usual.
  double low = b.ofu;
  for (const Low& l : past->lows)
    if (l.hour + kMicrosPerHour <= now - kBaselineReach) low = std::fmin(low, l.ofu);
  out->Set(Quantity::kJobLowOfu, row, low);
  out->Set(Quantity::kJobBaselineTensor, row, b.tensor);
  out->Set(Quantity::kJobBaselinePower, row, b.power);
  out->Set(Quantity::kJobBaselineDuty, row, b.duty);
  out->Set(Quantity::kJobBaselineSpread, row, b.spread);
}

void Look::TakeFleet(Micros now, Round* round) {
  const UsageSums s = memory_.live()->FleetSince(now - kWindow + 1);
  Subjects& out = round->of(Scope::kFleet);
  out.Resize(Scope::kFleet, 1, round->wanted);
  out.keys[0] = 1;
  const double ofu = s.ofu.Ofu().value_or(kNotKnown);
  out.Set(Quantity::kFleetOfu, 0, ofu);
  out.Set(Quantity::kFleetCoverage, 0, Ratio(s.ofu.computable_s, s.ofu.observed_s));
  out.Set(Quantity::kFleetGpus, 0, memory_.live()->GpusReporting(now - memory_.silent_after()));
  const bool full = FloorTo(now, kWindow) > window_ && window_ != 0;
  if (full && !std::isnan(ofu))
    Keep(&fleet_, {FloorTo(now, kWindow), static_cast<float>(ofu), 0, 0, 0}, kFleetReach);
  std::vector<float> ofus;
  for (const Past& p : fleet_)
    if (p.to <= now - kFleetGap) ofus.push_back(p.ofu);
  out.Set(Quantity::kFleetBaselineWindows, 0, static_cast<double>(ofus.size()));
  out.Set(Quantity::kFleetBaselineOfu, 0, Median(&ofus));
}

Who Look::WhoOf(Scope scope, size_t row, Whose whose) const {
  Who who;
  int32_t job = 0;
  if (scope == Scope::kNode) who.node = nodes_[static_cast<size_t>(node_rows_[row])];
  if (scope == Scope::kJob) job = job_ids_[row];
  if (scope == Scope::kGpu) {
    const GpuNow& gpu = gpus_[row];
    if (const auto record = memory_.registry().entity(gpu.entity)) {
      who.gpu = record->key.uuid;
      who.node = record->labels.node;
    }
    const int32_t set =
        whose == Whose::kNow ? gpu.job_set : boards_[static_cast<size_t>(gpu.entity)].xid_set;
    const std::vector<int32_t> members = memory_.jobs().SetMembers(set);
    if (members.size() == 1) job = members[0];  // of several nobody is the one
  }
  if (!who.node.empty()) {
    if (racks_ != nullptr) who.rack = racks_->Of(who.node);
    const Place& place = PlaceOf(who.node);
    who.cluster = place.cluster;
    who.partition = place.partition;
  }
  const auto record = job > 0 ? memory_.jobs().job(job) : std::nullopt;
  if (!record) return who;
  who.job = record->key;
  who.user = record->user;
  who.workflow = record->workflow;
  if (!record->cluster.empty()) who.cluster = record->cluster;
  // The books are walked once a round: thousands may begin to fire in one.
  if (!accounts_.has_value()) {
    accounts_.emplace();
    const Micros now = memory_.now();
    memory_.books().ForEachAttempt(now - 2 * kNews, now + 1, [&](const jobs::AttemptRecord& a) {
      (*accounts_)[a.job] = {a.account, a.partition};
    });
  }
  if (const auto of = accounts_->find(record->key); of != accounts_->end()) {
    who.account = of->second.first;
    if (!of->second.second.empty()) who.partition = of->second.second;
  }
  return who;
}

const Look::Place& Look::PlaceOf(const std::string& node) const {
  static const Place* const nowhere = new Place;
  if (!places_.has_value()) {  // the books are walked once a round, as for accounts
    places_.emplace();
    const Micros now = memory_.now();
    memory_.books().ForEachNode(now - kWindow, now + 1, [&](const jobs::NodeRecord& n) {
      const bool one = n.partitions.find(',') == std::string::npos;
      const auto [at, is_new] = places_->try_emplace(n.node);
      Place& place = at->second;
      if (is_new) {
        place = {n.cluster, one ? n.partitions : ""};
        return;
      }
      // Several clusters have a node of that name, or it changed a moment ago.
      if (place.cluster != n.cluster) place.cluster.clear();
      if (!one || place.partition != n.partitions) place.partition.clear();
    });
  }
  const auto at = places_->find(node);
  return at == places_->end() ? *nowhere : at->second;
}

std::map<std::string, double, std::less<>> Look::Baselines(const Round& round) const {
  std::map<std::string, double, std::less<>> out;
  for (size_t row = 0; row < job_ids_.size(); ++row) {
    const double ofu = round.of(Scope::kJob).At(Quantity::kJobBaselineOfu, row);
    const auto record = memory_.jobs().job(job_ids_[row]);
    if (!std::isnan(ofu) && record) out[record->key] = ofu;
  }
  return out;
}

}  // namespace flopwatch::alerts
