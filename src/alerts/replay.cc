#include "alerts/replay.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "alerts/judge.h"
#include "alerts/look.h"
#include "efficiency/sample_flags.h"
#include "ingest/live.h"

namespace flopwatch::alerts {
namespace {

using ingest::LiveRow;

enum Column : uint8_t {
  kTensorMhz,
  kTensor,
  kClock,
  kSmActive,
  kOccupancy,
  kDuty,
  kGraphics,
  kPower,
  kMemory,
  kTemperature,
  kXid,
  kXidErrors,
  kReasons,
  kEcc,
  kRemaps,
  kRemapPending,
  kRemapFailed,
  kLinkErrors,
  kReplays,
  kColumns
};
constexpr std::array<std::string_view, kColumns> kNames = {
    "tensor_mhz",          "tensor_active", "sm_clock_mhz", "sm_active",
    "sm_occupancy",        "gpu_util",      "gr_active",    "power_w",
    "fb_used_mib",         "gpu_temp_c",    "xid",          "xid_errors",
    "clock_event_reasons", "ecc_dbe",       "row_remaps",   "row_remap_pending",
    "row_remap_failed",    "nvlink_errors", "pcie_replays"};

constexpr double kRowsAtOnce = 500'000;  // they are sorted in memory

// What is known of a GPU besides its rows.
struct Device {
  bool known = false, instance = false;
  int32_t model = 0;
  double max_clock = 0, fraction = 1;
};

class Feed {
 public:
  Feed(const query::Query& query, ingest::LiveState* live)
      : query_(query), memory_(query.memory()), live_(*live) {
    memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
      const auto at = static_cast<size_t>(e.id);
      if (at >= devices_.size()) devices_.resize(at + 1);
      const auto model = memory_.registry().model(e.model);
      devices_[at] = {.known = true,
                      .instance = e.key.gpu_instance >= 0,
                      .model = e.model,
                      .max_clock = model ? model->tensor_clock_max_mhz.value_or(0) : 0};
    });
    for (size_t id = 1; id < devices_.size(); ++id)
      if (devices_[id].known)
        devices_[id].fraction = memory_.registry().Fraction(static_cast<int32_t>(id));
  }

  Status Read(store::Window window) {
    rows_.clear();
    order_.clear();
    next_ = 0;
    FW_RETURN_IF_ERROR(query_.store().VisitGpuRows(window, kNames, store::RowOrder::kAny,
                                                   [&](const store::GpuRows& rows) {
                                                     for (size_t r = 0; r < rows.count; ++r)
                                                       Add(rows, r);
                                                     return absl::OkStatus();
                                                   }));
    std::ranges::sort(order_);
    return absl::OkStatus();
  }

  // Those of until `ts`, scrape by scrape.
  void GiveUntil(Micros ts) {
    while (next_ < order_.size() && order_[next_].ts <= ts) {
      scrape_.clear();
      const Place& first = order_[next_];
      int32_t last = 0;
      for (; next_ < order_.size() && order_[next_].ts == first.ts && order_[next_].entity != last;
           ++next_) {
        last = order_[next_].entity;
        scrape_.push_back(rows_[order_[next_].row]);
      }
      live_.Update(scrape_);
    }
  }
  uint64_t count() const { return count_; }
  Micros first() const { return first_; }

 private:
  void Add(const store::GpuRows& rows, size_t r) {
    const auto id = static_cast<size_t>(rows.entity[r]);
    if (id >= devices_.size() || !devices_[id].known) return;
    const Device& device = devices_[id];
    const auto value = [&](Column c) { return rows.values[c][r]; };
    const auto whole = [&](Column c) {
      return std::isnan(value(c)) ? int64_t{-1} : static_cast<int64_t>(value(c));
    };
    LiveRow row;
    ingest::GpuNow& now = row.now;
    now.entity = rows.entity[r];
    now.job_set = rows.job_set[r];
    now.model = device.model;
    now.flags = static_cast<uint32_t>(rows.flags[r]);
    if (device.max_clock <= 0) now.flags |= efficiency::kModelUnknown;
    now.ts = rows.ts[r];
    now.instance = device.instance;
    const bool cycles = (now.flags & efficiency::kCyclePath) != 0;
    const double work = cycles ? value(kTensorMhz) : value(kTensor) * value(kClock);
    if ((now.flags & (efficiency::kNoWork | efficiency::kModelUnknown)) == 0)
      now.ofu = work / device.max_clock;
    now.tensor_active = value(kTensor);
    now.sm_clock_mhz = value(kClock);
    now.sm_active = value(kSmActive);
    now.sm_occupancy = value(kOccupancy);
    now.gpu_util = std::isnan(value(kDuty)) ? value(kGraphics) : value(kDuty);
    now.power_w = value(kPower);
    now.fb_used_mib = value(kMemory);
    now.gpu_temp_c = value(kTemperature);
    now.troubles = {.xid = static_cast<int32_t>(whole(kXid)),
                    .xid_errors = whole(kXidErrors),
                    .throttle = whole(kReasons),
                    .ecc_dbe = whole(kEcc),
                    .nvlink_errors = whole(kLinkErrors),
                    .pcie_replays = whole(kReplays),
                    .row_remaps = static_cast<int32_t>(whole(kRemaps)),
                    .row_remap_pending = static_cast<int8_t>(whole(kRemapPending)),
                    .row_remap_failed = static_cast<int8_t>(whole(kRemapFailed))};
    row.span_s = rows.span_ms[r] / 1e3;
    row.fraction = device.fraction;
    row.jobs = MembersOf(now.job_set);
    order_.push_back({now.ts, now.entity, static_cast<uint32_t>(rows_.size())});
    rows_.push_back(row);
    if (count_++ == 0 || now.ts < first_) first_ = now.ts;
  }
  absl::Span<const int32_t> MembersOf(int32_t set) {
    if (set == 0) return {};
    const auto [at, is_new] = members_.try_emplace(set);
    if (is_new) at->second = std::make_unique<std::vector<int32_t>>(memory_.jobs().SetMembers(set));
    return *at->second;
  }

  const query::Query& query_;
  const query::Memory& memory_;
  ingest::LiveState& live_;
  std::vector<Device> devices_;  // by entity id
  absl::flat_hash_map<int32_t, std::unique_ptr<std::vector<int32_t>>> members_;
  struct Place {
    Micros ts;
    int32_t entity;
    uint32_t row;
    auto operator<=>(const Place&) const = default;
  };
  std::vector<LiveRow> rows_;
  std::vector<Place> order_;  // of rows_: sorting these moves less
  size_t next_ = 0;           // in order_
  std::vector<LiveRow> scrape_;
  uint64_t count_ = 0;
  Micros first_ = 0;
};

}  // namespace

absl::Span<const std::string_view> ReplayedColumns() { return kNames; }

Status SaidFeed::Read(Micros to) {
  page_.clear();
  next_ = 0;
  if (job_of_.empty()) {
    unread_ = to;
    return absl::OkStatus();
  }
  to = std::min(to, unread_ + kPart);
  FW_ASSIGN_OR_RETURN(page_, query_.store().ApplicationSamples({unread_, to}, {}, kPage));
  if (page_.size() < kPage) {
    unread_ = to;
    return absl::OkStatus();
  }
  // A full page may end within a moment: that moment is read again as a whole. Where a page is of
  // one moment alone, what there is more of it is left out.
  const Micros last = page_.back().ts;
  if (page_.front().ts == last) {
    unread_ = last + 1;
    return absl::OkStatus();
  }
  while (page_.back().ts == last) page_.pop_back();
  unread_ = last;
  return absl::OkStatus();
}

Status SaidFeed::GiveUntil(Micros ts, Heard heard) {
  while (true) {
    for (; next_ < page_.size() && page_[next_].ts <= ts; ++next_)
      if (const auto job = job_of_.find(page_[next_].claim); job != job_of_.end())
        heard(job->second, page_[next_]);
    if (next_ < page_.size() || unread_ > ts) return absl::OkStatus();
    FW_RETURN_IF_ERROR(Read(std::max(ts + 1, unread_ + kPart)));
  }
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
  Feed feed(query, &live);
  SaidFeed said(query, now);
  const auto hear = [&](std::string_view job, const telemetry::ApplicationSample& sample) {
    look.Hear(job, sample);
  };
  Judge judge(&query, options.rules, store::Window{now, window.to});
  Micros judged = 0;
  const auto consider = [&](Micros moment) -> Status {
    if (!judge.needed() || moment == judged) return absl::OkStatus();
    judged = moment;
    auto verdicts = std::make_shared<Verdicts>();
    FW_RETURN_IF_ERROR(judge.At(moment, verdicts.get()));
    look.SetVerdicts(std::move(verdicts), moment);
    return absl::OkStatus();
  };
  Round round;
  round.wanted = engine.quantities();
  Replayed out;
  const double gpus = std::max<double>(static_cast<double>(stored.registry().entity_count()), 1);
  const Micros chunk = std::max<Micros>(
      static_cast<Micros>(std::min(60.0, kRowsAtOnce / (4 * gpus))) * kMicrosPerMinute,
      kMicrosPerMinute);
  Micros expired = now;
  for (Micros at = now; at < window.to; at += chunk) {
    const Micros end = std::min(at + chunk, window.to);
    FW_RETURN_IF_ERROR(feed.Read({at, end}));
    if (feed.count() == 0) continue;  // before the first row there is nothing to look at
    for (now = std::max(now, FloorTo(at, options.interval)); now < end; now += options.interval) {
      feed.GiveUntil(now);
      FW_RETURN_IF_ERROR(said.GiveUntil(now, hear));
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
