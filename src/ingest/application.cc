#include "ingest/application.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "base/log.h"
#include "base/text.h"

namespace flopwatch::ingest {
namespace {

using telemetry::ApplicationClaim;
using telemetry::ApplicationField;
using telemetry::ApplicationSample;
using telemetry::ApplicationSource;

constexpr std::string_view kRefusalNames[] = {
    "invalid",    "unit_unclear", "no_job",      "no_gpu_count", "too_old",    "future_timestamp",
    "other_rank", "job_limit",    "claim_limit", "queue_full",   "store_error"};
static_assert(std::size(kRefusalNames) == kApplicationRefusals);

constexpr size_t kMaxExamples = 8;
constexpr int64_t kMaxStepsBetween = 100'000;
constexpr size_t kRecentPerJob = 256;       // stored samples remembered to know repeats by
constexpr uint64_t kMaxLookup = 4'000'000;  // stored samples compared with at once
constexpr Micros kFlushInterval = kMicrosPerSecond;
constexpr size_t kMaxVoices = 200'000;
constexpr size_t kAskedByName = 10'000;  // of more claims the store is asked about all there are
constexpr store::Window kAllTime = {946'684'800 * kMicrosPerSecond,
                                    7'258'118'400 * kMicrosPerSecond};

std::pair<Micros, int64_t> KeyOf(const ApplicationSample& s) { return {s.ts, s.step.value_or(-1)}; }

size_t BytesOf(const ApplicationClaim& c) {
  size_t bytes = c.job.size() + sizeof c;
  for (const telemetry::ClaimText& t : telemetry::kClaimTexts) bytes += (c.*t.text).size();
  return bytes;
}

// Whether `more` says everything `stored` says, and contradicts nothing.
bool Completes(const ApplicationClaim& stored, const ApplicationClaim& more) {
  if (stored.job != more.job) return false;
  for (const telemetry::ClaimText& t : telemetry::kClaimTexts)
    if (!(stored.*t.text).empty() && stored.*t.text != more.*t.text) return false;
  const auto agrees = [](const auto& a, const auto& b) { return !a.has_value() || a == b; };
  return agrees(stored.peak_tflops, more.peak_tflops) && agrees(stored.gpus, more.gpus) &&
         agrees(stored.seq_len, more.seq_len) && agrees(stored.global_batch, more.global_batch) &&
         agrees(stored.training_flops_per_token, more.training_flops_per_token);
}

}  // namespace

std::string_view ApplicationRefusalName(ApplicationRefusal reason) {
  return reason < ApplicationRefusal::kCount ? kRefusalNames[static_cast<size_t>(reason)]
                                             : "unknown";
}

void ApplicationOutcome::Refuse(ApplicationRefusal reason, std::string_view what, uint64_t n) {
  refused[static_cast<size_t>(reason)] += n;
  if (examples.size() < kMaxExamples)
    examples.push_back(fmt::format("{}: {}", ApplicationRefusalName(reason), Printable(what, 160)));
}

ApplicationIntake::ApplicationIntake(store::Store* store, std::function<Micros()> clock,
                                     ApplicationLimits limits)
    : store_(store), clock_(clock ? std::move(clock) : Now), limits_(limits) {}

ApplicationIntake::~ApplicationIntake() {
  if (thread_.joinable()) {
    thread_.request_stop();
    thread_.join();
  }
  if (const Status s = Flush(); !s.ok())
    LogError("stopping with reports of applications not stored: {}", std::string(s.message()));
}

void ApplicationIntake::Load(std::vector<ApplicationClaim> claims) {
  MutexLock adding(adding_);
  MutexLock lock(index_mutex_);
  index_.claims = std::move(claims);
  index_.jobs.clear();
  index_.by_content.clear();
  index_.claim_bytes = 0;
  for (size_t k = 0; k < index_.claims.size(); ++k) {
    const ApplicationClaim& claim = index_.claims[k];
    index_.last_id = std::max(index_.last_id, claim.id);
    index_.jobs[claim.job].claims.push_back(k);
    index_.by_content[claim.Content()] = k;
    index_.claim_bytes += BytesOf(claim);
  }
}

void ApplicationIntake::Start() {
  if (store_ != nullptr) thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
}

void ApplicationIntake::Run(std::stop_token stop) {
  while (!stop.stop_requested()) {
    {
      MutexLock lock(queue_mutex_);
      wake_.WaitFor(queue_mutex_, stop, kFlushInterval, [] { return false; });
      if (waiting_ == 0) continue;
    }
    if (const Status s = Flush(); !s.ok())
      LogWarn("storing what applications report: {}", std::string(s.message()));
  }
}

std::vector<int32_t> ApplicationIntake::IdsOf(const Job& job) {
  std::vector<int32_t> ids;
  for (size_t k : job.claims) ids.push_back(index().claims[k].id);
  return ids;
}

StatusOr<ApplicationIntake::Job*> ApplicationIntake::JobOf(const std::string& key,
                                                           ApplicationOutcome* outcome,
                                                           uint64_t samples) {
  Index& known = index();
  if (const auto it = known.jobs.find(key); it != known.jobs.end()) return &it->second;
  if (known.jobs.size() >= limits_.jobs) {
    outcome->Refuse(ApplicationRefusal::kJobLimit, fmt::format("job {}", key), samples);
    return nullptr;
  }
  MutexLock lock(index_mutex_);
  Job& job = index_.jobs[key];
  job.known = true;  // nothing is stored of it
  return &job;
}

// Recalls what the store has of a job's newest sample from before this process began.
Status ApplicationIntake::Recall(Job* job) {
  if (job->known || job->claims.empty()) {
    job->known = true;
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(const auto usage, store_->ApplicationByClaim(kAllTime, IdsOf(*job)));
  for (const store::ApplicationUsage& u : usage)
    job->last_ts = std::max(job->last_ts, u.sums.last_ts);
  if (job->last_ts != 0) {
    FW_ASSIGN_OR_RETURN(const auto last, store_->ApplicationSamples(
                                             {job->last_ts, job->last_ts + 1}, IdsOf(*job), 64));
    for (const ApplicationSample& s : last) job->last_step = s.step;
  }
  job->known = true;
  return absl::OkStatus();
}

void ApplicationIntake::SetSpan(Job* job, ApplicationSample* sample) const {
  if (sample->span_ms == 0) {
    const std::optional<double> step_time = (*sample)[ApplicationField::kStepTimeS];
    const Micros since = job->last_ts == 0 ? 0 : sample->ts - job->last_ts;
    Micros span = 0;
    if (step_time.has_value() && sample->step.has_value() && job->last_step.has_value() &&
        *sample->step > *job->last_step && *sample->step - *job->last_step <= kMaxStepsBetween &&
        since > 0 && since <= kMaxSampleGap) {
      const double s = *step_time * static_cast<double>(*sample->step - *job->last_step);
      span = s > 86'400 ? 0 : static_cast<Micros>(s * kMicrosPerSecond);
    } else if (since > 0 && since <= kMaxSampleGap) {
      span = since;
    } else if (step_time.has_value() && *step_time <= 86'400) {
      span = static_cast<Micros>(*step_time * kMicrosPerSecond);
    }
    if (span <= telemetry::kMaxApplicationSpan)
      sample->span_ms = static_cast<int32_t>(span / kMicrosPerMilli);
  }
  if (sample->ts >= job->last_ts) {
    job->last_ts = sample->ts;
    job->last_step = sample->step.has_value() ? sample->step : job->last_step;
  }
}

ApplicationIntake::Samples ApplicationIntake::Check(absl::Span<const ApplicationSample> samples,
                                                    Micros now, ApplicationOutcome* outcome) const {
  const Micros kept = store_->stats().application_kept;
  Samples good;
  for (const ApplicationSample& s : samples) {
    if (const Status status = telemetry::CheckSample(s); !status.ok()) {
      outcome->Refuse(ApplicationRefusal::kInvalid,
                      std::string_view(status.message().data(), status.message().size()));
    } else if (kept > 0 && s.ts < now - kept) {
      outcome->Refuse(ApplicationRefusal::kTooOld,
                      fmt::format("{}: kept for {}", FormatTime(s.ts), FormatDuration(kept)));
    } else if (s.ts > now + kFutureLimit) {
      outcome->Refuse(ApplicationRefusal::kFutureTimestamp, FormatTime(s.ts));
    } else {
      good.push_back(s);
    }
  }
  return good;
}

void ApplicationIntake::Count(ApplicationSource source, const ApplicationOutcome& outcome) {
  MutexLock lock(counters_mutex_);
  Counters& c = counters_[static_cast<size_t>(source)];
  c.accepted += outcome.accepted;
  c.duplicates += outcome.duplicates;
  for (size_t k = 0; k < kApplicationRefusals; ++k) c.refused[k] += outcome.refused[k];
}

StatusOr<ApplicationOutcome> ApplicationIntake::Add(const ApplicationClaim& given,
                                                    absl::Span<const ApplicationSample> samples) {
  if (store_ == nullptr) return Unavailable("there is no store to keep what applications report");
  FW_RETURN_IF_ERROR(telemetry::CheckClaim(given));
  if (samples.size() > limits_.samples_per_call) {
    return InvalidArgument("{} samples at once; at most {} are taken: send them in parts",
                           samples.size(), limits_.samples_per_call);
  }
  ApplicationOutcome outcome;
  const Micros now = clock_();
  const Samples good = Check(samples, now, &outcome);
  if (!good.empty()) {
    MutexLock adding(adding_);
    auto added = AddChecked(given, good, now, std::move(outcome));
    if (!added.ok() && !absl::IsInvalidArgument(added.status()))
      return Unavailable("nothing of this report is stored: {}; send it again",
                         MessageOf(added.status()));
    FW_ASSIGN_OR_RETURN(outcome, std::move(added));
  }
  Count(given.source, outcome);
  return outcome;
}

StatusOr<ApplicationOutcome> ApplicationIntake::AddChecked(const ApplicationClaim& given,
                                                           const Samples& good, Micros now,
                                                           ApplicationOutcome outcome) {
  FW_ASSIGN_OR_RETURN(Job * job, JobOf(given.job, &outcome, good.size()));
  if (job == nullptr) return outcome;
  FW_RETURN_IF_ERROR(Recall(job));
  FW_ASSIGN_OR_RETURN(Sorted sorted, TellApart(job, good, &outcome));
  FW_ASSIGN_OR_RETURN(const std::optional<size_t> claim,
                      ClaimFor(given, job, sorted, now, &outcome));
  if (sorted.fresh.empty() || !claim.has_value()) return outcome;
  const size_t accepted = sorted.fresh.size();
  FW_RETURN_IF_ERROR(Store(job, *claim, std::move(sorted.fresh), now));
  outcome.accepted = accepted;
  return outcome;
}

// Tells what is stored already from what is not. Exporters repeat the same report at every scrape:
// those of this process are known without a question to the store, which would make it take its
// journal in each time.
StatusOr<ApplicationIntake::Sorted> ApplicationIntake::TellApart(Job* job, const Samples& good,
                                                                 ApplicationOutcome* outcome) {
  Sorted sorted;
  absl::flat_hash_set<Key> seen;
  Micros first = std::numeric_limits<Micros>::max(), last = 0;
  bool all_recent = true;
  for (const ApplicationSample& s : good) {
    first = std::min(first, s.ts);
    last = std::max(last, s.ts);
    if (const auto it = job->recent.find(KeyOf(s)); it != job->recent.end()) {
      seen.insert(it->first);
      sorted.claims_of_duplicates.insert(it->second);
    } else if (s.ts <= job->last_ts) {
      all_recent = false;
    }
  }
  if (!job->claims.empty() && first <= job->last_ts && !all_recent) {
    FW_ASSIGN_OR_RETURN(const auto stored,
                        store_->ApplicationSamples({first, std::min(last, job->last_ts) + 1},
                                                   IdsOf(*job), kMaxLookup));
    absl::flat_hash_map<Key, int32_t> by_key;
    for (const ApplicationSample& s : stored) by_key.emplace(KeyOf(s), s.claim);
    for (const ApplicationSample& s : good) {
      const auto it = by_key.find(KeyOf(s));
      if (it == by_key.end()) continue;
      seen.insert(it->first);
      sorted.claims_of_duplicates.insert(it->second);
      if (job->recent.size() < kRecentPerJob) job->recent.insert(*it);
    }
  }
  for (const ApplicationSample& s : good) {
    if (seen.insert(KeyOf(s)).second) {
      sorted.fresh.push_back(s);
    } else {
      ++outcome->duplicates;
    }
  }
  return sorted;
}

StatusOr<std::optional<size_t>> ApplicationIntake::ClaimFor(const ApplicationClaim& given, Job* job,
                                                            const Sorted& sorted, Micros now,
                                                            ApplicationOutcome* outcome) {
  const Index& known = index();
  std::string content = given.Content();
  if (const auto it = known.by_content.find(content); it != known.by_content.end())
    return it->second;
  std::optional<size_t> completes;
  for (size_t k : job->claims) {
    if (sorted.claims_of_duplicates.contains(known.claims[k].id) &&
        Completes(known.claims[k], given))
      completes = k;
  }
  ApplicationClaim claim = given;
  if (completes.has_value()) {
    const ApplicationClaim& less = known.claims[*completes];
    claim.id = less.id;
    claim.first_seen = less.first_seen;
    claim.source = less.source;
    FW_RETURN_IF_ERROR(store_->PutClaims({&claim, 1}));
    MutexLock lock(index_mutex_);
    index_.by_content.erase(less.Content());
    index_.claim_bytes += BytesOf(claim) - BytesOf(less);
    index_.by_content.emplace(claim.Content(), *completes);
    index_.claims[*completes] = std::move(claim);
    outcome->claim_completed = true;
    return completes;
  }
  if (sorted.fresh.empty()) return std::nullopt;
  if (job->claims.size() >= limits_.claims_per_job || known.claims.size() >= limits_.claims ||
      known.claim_bytes > limits_.claim_bytes) {
    outcome->Refuse(ApplicationRefusal::kClaimLimit,
                    fmt::format("job {} has {} claims", given.job, job->claims.size()),
                    sorted.fresh.size());
    return std::nullopt;
  }
  claim.id = known.last_id + 1;
  claim.first_seen = now;
  FW_RETURN_IF_ERROR(store_->PutClaims({&claim, 1}));
  MutexLock lock(index_mutex_);
  const size_t at = index_.claims.size();
  ++index_.last_id;
  index_.claim_bytes += BytesOf(claim);
  job->claims.push_back(at);
  index_.by_content.emplace(std::move(content), at);
  index_.claims.push_back(std::move(claim));
  return at;
}

Status ApplicationIntake::Store(Job* job, size_t claim, Samples fresh, Micros now) {
  std::stable_sort(fresh.begin(), fresh.end(),
                   [](const auto& a, const auto& b) { return a.ts < b.ts; });
  const auto last_ts = job->last_ts;
  const auto last_step = job->last_step;
  for (ApplicationSample& s : fresh) {
    s.claim = index().claims[claim].id;
    SetSpan(job, &s);
  }
  if (looking_) used_.insert(index().claims[claim].id);
  if (const Status s = store_->AppendApplication(fresh, now); !s.ok()) {
    job->last_ts = last_ts;
    job->last_step = last_step;
    return s;
  }
  if (job->recent.size() + fresh.size() > kRecentPerJob) job->recent.clear();
  for (const ApplicationSample& s : fresh)
    if (job->recent.size() < kRecentPerJob) job->recent.emplace(KeyOf(s), s.claim);
  const std::string& key = index().claims[claim].job;
  const MutexLock lock(news_mutex_);
  for (const ApplicationSample& s : fresh) news_.emplace_back(key, s);
  news_end_ += fresh.size();
  while (news_.size() > kNewsKept) news_.pop_front();
  return absl::OkStatus();
}

void ApplicationIntake::News(uint64_t* seen, Heard heard) const {
  std::vector<std::pair<std::string, ApplicationSample>> news;
  {
    const MutexLock lock(news_mutex_);
    const uint64_t begin = news_end_ - news_.size();
    const uint64_t from = std::clamp(*seen, begin, news_end_);
    news.assign(news_.begin() + static_cast<ptrdiff_t>(from - begin), news_.end());
    *seen = news_end_;
  }
  for (const auto& [job, sample] : news) heard(job, sample);
}

void ApplicationIntake::Refuse(ApplicationSource source, ApplicationRefusal reason) {
  MutexLock lock(counters_mutex_);
  ++counters_[static_cast<size_t>(source)].refused[static_cast<size_t>(reason)];
}

void ApplicationIntake::Offer(const telemetry::ApplicationSeries& who, ApplicationSource source,
                              const ApplicationSample& sample) {
  if (store_ == nullptr) return;
  const Micros now = MonotonicNow();
  MutexLock lock(queue_mutex_);
  if (voices_.size() >= kMaxVoices) {
    absl::erase_if(voices_, [&](const auto& v) { return now - v.second.at > kSpeakerSilence; });
    if (voices_.size() >= kMaxVoices) voices_.clear();
  }
  Voice& voice = voices_[who.claim.job];
  const auto before = [](const Voice& a, const Voice& b) {  // whether a is heard rather than b
    if ((a.rank >= 0) != (b.rank >= 0)) return a.rank >= 0;
    return a.rank != b.rank ? a.rank < b.rank : a.name < b.name;
  };
  const Voice mine = {who.speaker, who.rank, now};
  const bool same = voice.at != 0 && voice.name == mine.name && voice.rank == mine.rank;
  if (!same && voice.at != 0 && now - voice.at <= kSpeakerSilence && !before(mine, voice))
    return Refuse(source, ApplicationRefusal::kOtherRank);
  voice = mine;
  if (waiting_ >= limits_.pending) return Refuse(source, ApplicationRefusal::kQueueFull);
  ApplicationClaim claim = who.claim;
  claim.source = source;
  Pending& pending = pending_[claim.Content()];
  if (pending.samples.empty()) pending.claim = std::move(claim);
  pending.samples.push_back(sample);
  ++waiting_;
}

Status ApplicationIntake::Flush() {
  std::map<std::string, Pending> taken;
  {
    MutexLock lock(queue_mutex_);
    taken = std::exchange(pending_, {});
    waiting_ = 0;
  }
  Status first;
  for (auto& [content, pending] : taken) {
    // Shorter runs than Add() takes at once.
    for (size_t at = 0; at < pending.samples.size(); at += limits_.samples_per_call) {
      const auto part = absl::MakeConstSpan(pending.samples).subspan(at, limits_.samples_per_call);
      const auto outcome = Add(pending.claim, part);
      if (outcome.ok()) continue;
      MutexLock lock(counters_mutex_);
      counters_[static_cast<size_t>(pending.claim.source)]
          .refused[static_cast<size_t>(ApplicationRefusal::kStoreError)] += part.size();
      if (first.ok()) first = outcome.status();
    }
  }
  return first;
}

// --- forgetting ---

std::vector<int32_t> ApplicationIntake::FirstSeenBefore(Micros before) {
  std::vector<int32_t> ids;
  for (const ApplicationClaim& claim : index().claims)
    if (claim.first_seen < before) ids.push_back(claim.id);
  return ids;
}

void ApplicationIntake::Erase(absl::Span<const int32_t> claims) {
  MutexLock lock(index_mutex_);
  std::vector<ApplicationClaim> left;
  left.reserve(index_.claims.size() - std::min(index_.claims.size(), claims.size()));
  for (auto& [key, job] : index_.jobs) job.claims.clear();
  index_.by_content.clear();
  index_.claim_bytes = 0;
  for (ApplicationClaim& claim : index_.claims) {
    if (std::binary_search(claims.begin(), claims.end(), claim.id)) continue;
    index_.jobs[claim.job].claims.push_back(left.size());
    index_.by_content[claim.Content()] = left.size();
    index_.claim_bytes += BytesOf(claim);
    left.push_back(std::move(claim));
  }
  index_.claims = std::move(left);
  absl::erase_if(index_.jobs, [](const auto& entry) { return entry.second.claims.empty(); });
}

StatusOr<std::vector<int32_t>> ApplicationIntake::Forget(Micros before) {
  std::vector<int32_t> silent;
  {
    MutexLock adding(adding_);
    const int64_t day = before / kMicrosPerDay;
    if (before <= 0 || day == forgotten_day_) return silent;
    forgotten_day_ = day;
    silent = FirstSeenBefore(before);
    used_.clear();
    looking_ = true;
  }
  // Samples are stored before this and found, or after it and noted.
  Status status;
  absl::flat_hash_set<int32_t> named;
  if (!silent.empty()) {
    const bool all = silent.size() > kAskedByName;
    const auto usage = store_->ApplicationByClaim(
        kAllTime, all ? absl::Span<const int32_t>() : absl::MakeConstSpan(silent));
    status = usage.status();
    if (usage.ok())
      for (const store::ApplicationUsage& u : *usage) named.insert(u.claim);
  }
  MutexLock adding(adding_);
  looking_ = false;
  if (!status.ok()) {
    forgotten_day_ = 0;
    return status;
  }
  std::erase_if(silent, [&](int32_t id) FW_REQUIRES(adding_) {
    return named.contains(id) || used_.contains(id);
  });
  std::sort(silent.begin(), silent.end());
  Erase(silent);
  return silent;
}

std::vector<ApplicationClaim> ApplicationIntake::ClaimsOf(std::string_view job) const {
  MutexLock lock(index_mutex_);
  std::vector<ApplicationClaim> out;
  const auto it = index_.jobs.find(std::string(job));
  if (it == index_.jobs.end()) return out;
  for (size_t k : it->second.claims) out.push_back(index_.claims[k]);
  return out;
}

std::vector<std::string> ApplicationIntake::Jobs() const {
  MutexLock lock(index_mutex_);
  std::vector<std::string> out;
  for (const auto& [key, job] : index_.jobs)
    if (!job.claims.empty()) out.push_back(key);
  std::sort(out.begin(), out.end());
  return out;
}

absl::flat_hash_map<int32_t, std::string> ApplicationIntake::JobsByClaim() const {
  MutexLock lock(index_mutex_);
  absl::flat_hash_map<int32_t, std::string> out;
  for (const ApplicationClaim& claim : index_.claims) out.emplace(claim.id, claim.job);
  return out;
}

ApplicationIntake::Stats ApplicationIntake::stats() const {
  Stats s;
  {
    MutexLock lock(index_mutex_);
    s.jobs = index_.jobs.size();
    s.claims = index_.claims.size();
  }
  {
    MutexLock lock(queue_mutex_);
    s.pending = waiting_;
  }
  MutexLock lock(counters_mutex_);
  s.by_source = counters_;
  return s;
}

}  // namespace flopwatch::ingest
