#include "query/idle.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "fleet/idle/rules.h"
#include "query/books.h"
#include "query/idle_tracks.h"

namespace flopwatch::query {
namespace {

using fleet::IdleJob;
using fleet::IdleState;
using fleet::IdleStretch;
using jobs::AttemptRecord;
using store::Window;

// Edges of one attempt's GPUs differ by no more.
constexpr Micros kAttemptGap = 30 * kMicrosPerSecond;
// Jobs that began before the rows which are read, and of which it matters whether each GPU worked
// before: one question to the store for each.
constexpr size_t kMaxLookedBack = 256;

// An attempt of a job: tracks that overlap.
struct Attempt {
  int32_t job = 0;
  Micros from = 0, to = 0;
  std::vector<const HeldTrack*> tracks;
};

std::vector<Attempt> AttemptsOfTracks(const std::vector<HeldTrack>& tracks) {
  std::vector<const HeldTrack*> sorted;
  for (const HeldTrack& t : tracks) sorted.push_back(&t);
  std::ranges::sort(sorted, [](const HeldTrack* a, const HeldTrack* b) {
    return std::tuple(a->job, a->track.from(), a->entity) <
           std::tuple(b->job, b->track.from(), b->entity);
  });
  std::vector<Attempt> out;
  for (const HeldTrack* t : sorted) {
    if (out.empty() || out.back().job != t->job || t->track.from() - kAttemptGap > out.back().to)
      out.push_back({t->job, t->track.from(), t->track.to(), {}});
    out.back().to = std::max(out.back().to, t->track.to());
    out.back().tracks.push_back(t);
  }
  return out;
}

class IdleGatherer {
 public:
  IdleGatherer(const Query& query, const fleet::Prices& prices)
      : query_(query), memory_(query.memory()), prices_(prices) {}

  StatusOr<IdleAnswer> Gather(Window asked) {
    answer_.view = memory_.StoredView(asked);
    answer_.view.source = UsageSource::kRaw;
    window_ = answer_.view.window;
    known_ = {window_.from - kIdleLookAround,
              std::max(window_.to, std::min(window_.to + kIdleLookAround, memory_.now()))};
    FW_ASSIGN_OR_RETURN(tracks_, IdleTracks::Read(query_, window_, known_));
    books_ = AttemptsIn(memory_, window_);
    for (const HeldTrack& t : tracks_->all()) {
      answer_.held_s += t.held_s;
      answer_.observed_s += t.track.observed_s();
      answer_.pauses_s += t.track.quiet_s();
      answer_.contradicted_s += t.track.contradicted_s();
    }
    const std::vector<Attempt> attempts = AttemptsOfTracks(tracks_->all());
    FW_RETURN_IF_ERROR(LookBack(attempts));
    for (const Attempt& a : attempts) FW_RETURN_IF_ERROR(AddAttempt(a));
    Finish();
    return std::move(answer_);
  }

 private:
  // The part of a row that is being made.
  struct Making {
    IdleRow row;
    std::set<int32_t> gpus;
    std::set<std::string> nodes;
    double covered_s = 0, length_s = 0;
    fleet::IdleMean duty, sm, power, work_power, memory;
  };

  bool Ended(const Attempt& a) const {
    // Of labels an interval ends at the last sample that showed the job.
    return a.to <= known_.to && a.to < memory_.now() - memory_.silent_after();
  }

  static bool Worked(const store::UsageSums& s) {
    return s.gpu_util_s > fleet::kIdleDuty * s.gpu_util_span_s;
  }

  // What jobs that began before the rows that are read did until then.
  Status LookBack(const std::vector<Attempt>& attempts) {
    std::vector<store::JobWindow> windows;
    absl::flat_hash_set<int32_t> asked;
    for (const Attempt& a : attempts)
      if (a.from < known_.from && asked.insert(a.job).second)
        windows.push_back({a.job, {a.from, known_.from}});
    if (windows.empty()) return absl::OkStatus();
    FW_ASSIGN_OR_RETURN(const std::vector<store::JobUsage> before,
                        query_.store().UsageByJobWindows(windows, /*exact=*/false));
    for (const store::JobUsage& u : before)
      if (u.sums.gpu_util_span_s > 0) before_[u.job] = u.sums;
    return absl::OkStatus();
  }

  Status AddAttempt(const Attempt& a) {
    IdleJob job;
    job.from = a.from;
    job.ended = Ended(a);
    job.to = std::min(a.to, known_.to);
    job.known_from = std::max(a.from, known_.from);
    const bool older = a.from < known_.from;
    if (older) {
      job.worked_before = std::nullopt;
      if (const auto it = before_.find(a.job); it != before_.end()) {
        const store::UsageSums& s = it->second;
        job.worked_before = Worked(s);
        job.tensor_before = {s.tensor_s, s.tensor_span_s};
        job.power_before = {s.power_j, s.power_span_s};
        job.sm_before = {s.sm_active_s, s.sm_active_span_s};
      }
    }
    bool any_silent = false;
    for (const HeldTrack* t : a.tracks) {
      any_silent |= t->track.last_active() == 0;
      job.gpus.push_back({&t->track, tracks_->EmptyMemory(t->entity), false});
    }
    if (older && any_silent) FW_RETURN_IF_ERROR(LookBackByGpu(a, &job));
    for (const IdleStretch& s : fleet::JudgeIdle(job)) AddStretch(a, job, s);
    return absl::OkStatus();
  }

  // Which of the job's GPUs worked before the rows that are read.
  Status LookBackByGpu(const Attempt& a, IdleJob* job) {
    for (fleet::IdleGpu& gpu : job->gpus) gpu.worked_before = std::nullopt;
    if (looked_back_++ >= kMaxLookedBack) return absl::OkStatus();
    FW_ASSIGN_OR_RETURN(const std::vector<store::GpuUsage> before,
                        query_.store().UsageByGpu({a.from, known_.from}, a.job));
    absl::flat_hash_map<int32_t, bool> worked;
    for (const store::GpuUsage& g : before)
      if (g.sums.gpu_util_span_s > 0) worked[g.entity] = Worked(g.sums);
    for (size_t g = 0; g < a.tracks.size(); ++g) {
      const auto it = worked.find(a.tracks[g]->entity);
      if (it != worked.end()) job->gpus[g].worked_before = it->second;
    }
    return absl::OkStatus();
  }

  void AddStretch(const Attempt& a, const IdleJob& job, const IdleStretch& s) {
    const Window in = {std::max(s.from, window_.from), std::min(s.to, window_.to)};
    if (in.from >= in.to) return;
    const double part = ToSeconds(in.to - in.from) / ToSeconds(s.to - s.from);
    const double gpu_s = s.gpu_s * part;
    if (gpu_s <= 0) return;
    const HeldTrack& track = *a.tracks[s.gpu];
    Making& m = rows_[{a.job, s.state}];
    fleet::IdleHeld& held = m.row.held;
    held.state = s.state;
    held.gpu_s += gpu_s;
    ++held.stretches;
    const bool first = held.since == 0 || s.from < held.since;
    if (first) {
      held.since = s.from;
      held.began_before = s.began_before;
    }
    held.until = std::max(held.until, s.to);
    held.goes_on |= s.goes_on && s.to >= window_.to - fleet::kMinBarrier;
    m.gpus.insert(track.entity);
    m.covered_s += s.covered_s * part;
    m.length_s += ToSeconds(in.to - in.from);
    m.duty.Add(s.duty, gpu_s);
    m.sm.Add(s.sm_active, gpu_s);
    m.power.Add(s.power_w, gpu_s);
    m.work_power.Add(s.work_power_w, gpu_s);
    m.memory.Add(s.memory_mib, gpu_s);
    const auto e = memory_.registry().entity(track.entity);
    if (e.has_value() && !e->labels.node.empty()) m.nodes.insert(e->labels.node);
    const fleet::Money each =
        PriceOf(e.has_value() ? e->labels.model : "", a.job, in.from).Over(in.from, in.to);
    // Of the time with samples; the price is that of the whole stretch.
    m.row.money += each * (gpu_s / ToSeconds(in.to - in.from));
    if (s.state == IdleState::kHung || s.state == IdleState::kBarrier) return;
    answer_.pauses_s -= gpu_s;
  }

  const fleet::PriceHistory& PriceOf(const std::string& model, int32_t job, Micros at) {
    const AttemptRecord* attempt = prices_.by_place() ? BooksOf(job, at) : nullptr;
    return attempt == nullptr
               ? prices_.Of(model, memory_.catalog())
               : prices_.Of(model, memory_.catalog(), attempt->cluster, attempt->partition);
  }

  // What the books say of the job at that time, else what they said last; null: nothing.
  const AttemptRecord* BooksOf(int32_t job, Micros at) const {
    return AttemptAt(books_.Of(job), at);
  }

  void Describe(int32_t job, IdleRow* row) const {
    const auto record = memory_.jobs().job(job);
    if (record.has_value()) {
      row->job = record->key;
      row->name = record->name;
      row->user = record->user;
      row->workflow = record->workflow;
      row->cluster = record->cluster;
    }
    const AttemptRecord* books = BooksOf(job, row->held.since);
    if (books == nullptr) return;
    row->account = books->account;
    for (const auto& [to, from] :
         {std::pair(&row->name, &books->name), std::pair(&row->user, &books->user),
          std::pair(&row->workflow, &books->workflow), std::pair(&row->cluster, &books->cluster)})
      if (to->empty()) *to = *from;
  }

  void Finish() {
    std::array<std::set<int32_t>, fleet::kIdleStates> gpus;
    for (auto& [key, m] : rows_) {
      IdleRow& row = m.row;
      Describe(key.first, &row);
      row.held.gpus = static_cast<int64_t>(m.gpus.size());
      // Edges are no better than a second.
      row.held.since = FloorTo(row.held.since, kMicrosPerSecond);
      row.held.until = FloorTo(row.held.until, kMicrosPerSecond);
      row.held.duty = m.duty.Mean();
      row.held.sm_active = m.sm.Mean();
      row.held.power_w = m.power.Mean();
      row.held.work_power_w = m.work_power.Mean();
      row.held.memory_mib = m.memory.Mean();
      row.coverage = m.length_s > 0 ? std::min(1.0, m.covered_s / m.length_s) : 0;
      row.nodes_total = static_cast<int64_t>(m.nodes.size());
      for (const std::string& node : m.nodes)
        if (row.nodes.size() < kIdleNodesNamed) row.nodes.push_back(node);
      const auto state = static_cast<size_t>(key.second);
      IdleTotal& total = answer_.totals[state];
      total.gpu_s += row.held.gpu_s;
      total.money += row.money;
      ++total.jobs;
      gpus[state].insert(m.gpus.begin(), m.gpus.end());
      answer_.rows.push_back(std::move(row));
    }
    for (size_t s = 0; s < fleet::kIdleStates; ++s)
      answer_.totals[s].gpus = static_cast<int64_t>(gpus[s].size());
    answer_.pauses_s = std::max(0.0, answer_.pauses_s);
    std::ranges::sort(answer_.rows, [](const IdleRow& a, const IdleRow& b) {
      if (a.held.gpu_s != b.held.gpu_s) return a.held.gpu_s > b.held.gpu_s;
      return std::pair(a.job, a.held.state) < std::pair(b.job, b.held.state);
    });
    AddStranded();
    AddNotes();
  }

  void AddStranded() {
    const Hosts hosts = HostsIn(memory_, window_, {}, prices_);
    for (const auto& [name, host] : hosts.hosts) {
      const fleet::HostTime time = fleet::TimeOf(host, {window_.from, window_.to});
      answer_.stranded += time.free;
      answer_.stranded_queued += time.free_queued;
    }
  }

  void AddNotes() {
    if (answer_.held_s <= 0) return;
    const double unknown = answer_.held_s - answer_.observed_s;
    if (unknown > .001 * answer_.held_s) {
      answer_.notes.push_back(fmt::format(
          "of {:.1f} GPU-hours that were held no sample says anything: unknown, and not "
          "called idle",
          unknown / 3600));
    }
    if (tracks_->minutes_until() > window_.from) {
      answer_.notes.push_back(fmt::format(
          "until {} raw rows are gone: told from the minutes of GPUs, edges to the minute; a GPU "
          "without a process is in no_work there",
          FormatTime(tracks_->minutes_until())));
    }
    if (tracks_->without_minutes() > 0) {
      answer_.notes.push_back(fmt::format("of {} GPUs no minutes were read: their time is unknown",
                                          tracks_->without_minutes()));
    }
    if (looked_back_ > kMaxLookedBack) {
      answer_.notes.push_back(fmt::format(
          "of {} jobs that began before the window it was not asked which GPUs they used before",
          looked_back_ - kMaxLookedBack));
    }
  }

  const Query& query_;
  const Memory& memory_;
  const fleet::Prices& prices_;
  Window window_, known_;
  std::unique_ptr<IdleTracks> tracks_;
  AttemptsByJob books_;
  absl::flat_hash_map<int32_t, store::UsageSums> before_;  // by job
  size_t looked_back_ = 0;
  std::map<std::pair<int32_t, IdleState>, Making> rows_;
  IdleAnswer answer_;
};

}  // namespace

StatusOr<IdleAnswer> IdleOf(const Query& query, Window asked, const fleet::Prices& prices) {
  return IdleGatherer(query, prices).Gather(asked);
}

std::string NoticeOf(const std::vector<const IdleRow*>& rows, const std::string& currency) {
  fleet::IdleNotice notice;
  notice.currency = currency;
  std::set<std::string> nodes;
  for (const IdleRow* row : rows) {
    notice.job = row->job;
    notice.name = row->name;
    notice.user = row->user;
    notice.account = row->account;
    notice.workflow = row->workflow;
    notice.nodes_total = std::max(notice.nodes_total, row->nodes_total);
    nodes.insert(row->nodes.begin(), row->nodes.end());
    notice.lines.push_back({row->held, row->money.priced_s > 0, row->money.amount});
  }
  for (const std::string& node : nodes)
    if (notice.nodes.size() < kIdleNodesNamed) notice.nodes.push_back(node);
  notice.nodes_total = std::max(notice.nodes_total, static_cast<int64_t>(nodes.size()));
  return fleet::IdleNoticeText(notice);
}

}  // namespace flopwatch::query
