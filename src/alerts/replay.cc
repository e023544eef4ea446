#include "alerts/replay.h"

#include <algorithm>
#include <future>
#include <memory>
#include <utility>

#include "alerts/judge.h"
#include "alerts/look.h"
#include "alerts/stored_rows.h"
#include "ingest/live.h"

namespace flopwatch::alerts {
namespace {

// How much time is read at once: at most an hour, of which files are, and so little that about
// StoredRows::kRowsAtOnce are in memory, however often GPUs are scraped.
class PieceLength {
 public:
  explicit PieceLength(double gpus)
      : length_(Within(StoredRows::kRowsAtOnce / (kMostAMinute * std::max(gpus, 1.0)))) {}
  Micros EndOf(Micros at) const {
    return std::min(at + length_, FloorTo(at, kMicrosPerHour) + kMicrosPerHour);
  }
  // `read` had so many. Twice as much at most, and of a time without rows nothing follows: what
  // comes next may have more.
  void Adapt(Micros read, size_t rows) {
    if (rows == 0) return;
    const double minutes =
        ToSeconds(read) / 60 * StoredRows::kRowsAtOnce / static_cast<double>(rows);
    length_ = std::min(Within(minutes), 2 * length_);
  }

 private:
  static constexpr double kMostAMinute = 60;  // rows of a GPU, until it is known
  static Micros Within(double minutes) {
    return static_cast<Micros>(std::clamp(minutes, 1.0, 60.0)) * kMicrosPerMinute;
  }
  Micros length_;
};

// What the store says of jobs, asked for the next moment while the rounds up to it go on.
class JudgedAhead {
 public:
  JudgedAhead(Judge judge, Micros to) : judge_(std::move(judge)), to_(to) {}

  // Null: no rule asks for it. Of moments that follow one another by kJudgedEvery.
  StatusOr<std::shared_ptr<const Verdicts>> At(Micros moment) {
    if (!judge_.needed()) return nullptr;
    StatusOr<std::shared_ptr<const Verdicts>> now = nullptr;
    if (coming_.valid()) now = coming_.get();
    if (coming_at_ != moment) now = Ask(moment);
    coming_at_ = moment + kJudgedEvery;
    if (coming_at_ < to_)
      coming_ = std::async(std::launch::async, [this, at = coming_at_] { return Ask(at); });
    return now;
  }

 private:
  StatusOr<std::shared_ptr<const Verdicts>> Ask(Micros moment) {
    auto verdicts = std::make_shared<Verdicts>();
    FW_RETURN_IF_ERROR(judge_.At(moment, verdicts.get()));
    return verdicts;
  }

  Judge judge_;
  const Micros to_;
  Micros coming_at_ = 0;
  // Last: it ends before the others go.
  std::future<StatusOr<std::shared_ptr<const Verdicts>>> coming_;
};

}  // namespace

SaidFeed::SaidFeed(const query::Query& query, Micros from)
    : job_of_(query.memory().applications().JobsByClaim()),
      pages_(
          [&query, none = job_of_.empty()](store::Window window, uint64_t limit)
              -> StatusOr<std::vector<telemetry::ApplicationSample>> {
            if (none) return std::vector<telemetry::ApplicationSample>();
            return query.store().ApplicationSamples(window, {}, limit);
          },
          from) {}

Status SaidFeed::GiveUntil(Micros ts, Heard heard) {
  return pages_.GiveUntil(ts, [&](const telemetry::ApplicationSample& sample) {
    if (const auto job = job_of_.find(sample.claim); job != job_of_.end())
      heard(job->second, sample);
  });
}

StatusOr<Replayed> Replay(const query::Query& query, const ReplayOptions& options) {
  const store::Window window = options.window;
  if (window.to <= window.from || window.to - window.from > kMaxReplay)
    return InvalidArgument("a replay is of a window of at most {}, not of {}",
                           FormatDuration(kMaxReplay), FormatDuration(window.to - window.from));
  const query::Memory& stored = query.memory();
  // Rounds are at the same moments whatever the window, and so are the times of alerts.
  Micros now = FloorTo(window.from - kBaselineReach, options.interval);
  ingest::LiveState live;
  query::MemorySources sources{.catalog = &stored.catalog(), .clock = [&now] { return now; }};
  sources.live = query::LiveSources{.registry = &stored.registry(),
                                    .jobs = &stored.jobs(),
                                    .books = &stored.books(),
                                    .live = &live,
                                    .applications = &stored.applications(),
                                    .silent_after = stored.silent_after()};
  const query::Memory memory(std::move(sources));
  Look look(&memory);
  look.SetRacks(options.racks);
  EngineOptions of = options.engine;
  of.links_to_evidence = true;
  of.interval = options.interval;
  Engine engine(options.rules, std::move(of));
  StoredRows feed(query, &live);
  SaidFeed said(query, now);
  KeptAnswers answers(query, now);
  look.SetAnswers([&] { return AnswersByNode(answers.Get()); });
  const auto hear = [&](std::string_view job, const telemetry::ApplicationSample& sample) {
    look.Hear(job, sample);
  };
  JudgedAhead judge(Judge(&query, options.rules, store::Window{now, window.to}), window.to);
  Micros judged = 0;
  const auto consider = [&](Micros moment) -> Status {
    if (moment == judged) return absl::OkStatus();
    judged = moment;
    FW_ASSIGN_OR_RETURN(std::shared_ptr<const Verdicts> verdicts, judge.At(moment));
    if (verdicts != nullptr) look.SetVerdicts(std::move(verdicts), moment);
    return absl::OkStatus();
  };
  Round round;
  round.wanted = engine.quantities();
  Replayed out;
  PieceLength length(static_cast<double>(stored.registry().entity_count()));
  Micros expired = now;
  for (Micros at = now, end = 0; at < window.to; at = end) {
    end = std::min(length.EndOf(at), window.to);
    FW_RETURN_IF_ERROR(feed.Read({at, end}));
    length.Adapt(end - at, feed.at_once());
    if (end < window.to) feed.ReadAhead({end, std::min(length.EndOf(end), window.to)});
    if (feed.count() == 0) continue;  // before the first row there is nothing to look at
    for (now = std::max(now, FloorTo(at, options.interval)); now < end; now += options.interval) {
      feed.GiveUntil(now);
      FW_RETURN_IF_ERROR(said.GiveUntil(now, hear));
      FW_RETURN_IF_ERROR(answers.GoTo(now));
      if (live.newest() == 0) continue;
      FW_RETURN_IF_ERROR(consider(FloorTo(now, kJudgedEvery)));
      look.Take(now, &round);
      engine.Run(round);
      ++out.rounds;
      if (now - expired >= kMicrosPerMinute) live.Expire(), expired = now;
    }
    feed.GiveUntil(end);
  }
  for (const Alert* alert : engine.Alerts(/*resolved=*/true))
    if (alert->until == 0 || alert->until > window.from) out.alerts.push_back(*alert);
  out.rows = feed.count();
  out.first = feed.first();
  return out;
}

}  // namespace flopwatch::alerts
