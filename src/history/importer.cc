#include "history/importer.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <ranges>
#include <thread>
#include <utility>

#include "base/mutex.h"
#include "history/owner_series.h"
#include "history/parts.h"
#include "history/store_taker.h"
#include "telemetry/labels.h"

namespace flopwatch::history {
namespace {

using store::Window;

// A window is to be this part of what its taker holds at once, so that the next one, which may have
// more, fits too. A server gives whole chunks, an hour or two of a series, whatever part of them a
// window is: with short windows they are read and decoded again and again.
constexpr double kUsualFill = 2.0 / 3;
// So many times as long may the next one be; after one with nothing in it, a fleet may begin.
constexpr double kMostGrowth = 12, kGrowthAfterNothing = 2;
constexpr Micros kFirstSlice = 5 * kMicrosPerMinute, kLongestSlice = 6 * kMicrosPerHour;
// The first window is as long as so many hosts, of all, say by so much of it (of a folder, so many
// metrics): asked for a short one first, a server would decode its first chunks once more for each
// that follows.
constexpr size_t kProbes = 3, kProbedHosts = 24;
constexpr Micros kProbed = 10 * kMicrosPerMinute;
// A server's chunks end with such parts of a day: a window that does too has no chunk read twice.
constexpr Micros kRoundLengths[] = {
    6 * kMicrosPerHour,    4 * kMicrosPerHour,    3 * kMicrosPerHour,    2 * kMicrosPerHour,
    kMicrosPerHour,        30 * kMicrosPerMinute, 20 * kMicrosPerMinute, 15 * kMicrosPerMinute,
    10 * kMicrosPerMinute, 5 * kMicrosPerMinute,  2 * kMicrosPerMinute,  kMicrosPerMinute};
constexpr Micros kLook = 10 * kMicrosPerMinute;
// A window that would be shorter is read in parts instead, and is then so long, where that takes no
// more parts than these. A Prometheus' chunks end with two hours: each is then unpacked once.
constexpr Micros kPartsSlice = 2 * kMicrosPerHour;
constexpr size_t kMostParts = 64;
// What owners' series may have, of what is held at once: it is beside every part.
constexpr double kMostOwners = 1.0 / 3;
// What is no longer is read whatever it has.
constexpr Micros kShortest = 2 * kMicrosPerMinute;

std::vector<std::string> MetricsOfGpus(const std::vector<std::string>& names) {
  const telemetry::FieldRegistry fields;
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (fields.Find(name).has_value() || telemetry::DialectOf(name) != telemetry::Dialect::kOther)
      out.push_back(name);
  }
  if (out.empty()) return out;
  std::ranges::copy_if(names, std::back_inserter(out), IsOwnerMetric);
  return out;
}

// What is asked of a metric: what of it is wanted, and what the user wants.
Selector SelectorOf(const std::string& metric,
                    const std::vector<telemetry::ReadMatcher>& matchers) {
  Selector selector{.metric = metric, .matchers = OwnerMatchers(metric)};
  selector.matchers.insert(selector.matchers.end(), matchers.begin(), matchers.end());
  return selector;
}

// For each exporter family one that all its exporters have, nearly always: they show who is there.
std::vector<std::string> MetricsToList(const std::vector<std::string>& metrics) {
  const telemetry::FieldRegistry fields;
  std::map<telemetry::Dialect, std::pair<int, std::string>> best;
  for (const std::string& metric : metrics) {
    const auto field = fields.Find(metric);
    if (!field.has_value()) continue;
    constexpr std::string_view kUsual[] = {"", "gpu_util", "power_w", "gpu_temp_c"};
    const auto at = std::ranges::find(kUsual, fields.spec(field->id).column);
    const int rank = at == std::end(kUsual) ? 0 : static_cast<int>(at - kUsual);
    const auto [it, is_new] =
        best.try_emplace(telemetry::DialectOf(metric), std::pair(rank, metric));
    if (!is_new && it->second.first < rank) it->second = {rank, metric};
  }
  std::vector<std::string> out;
  for (auto& [dialect, metric] : best) out.push_back(std::move(metric.second));
  return out;
}

// Of a window that is to be as full as is usual, after one that was `fill` full.
Micros LengthFor(double fill, Window filled) {
  const double growth = fill > 0 ? std::min(kMostGrowth, kUsualFill / fill) : kGrowthAfterNothing;
  const double seconds = ToSeconds(filled.to - filled.from) * growth;
  return std::clamp(FloorTo(static_cast<Micros>(seconds * kMicrosPerSecond), kMicrosPerMinute),
                    kMicrosPerMinute, kLongestSlice);
}

// The end of a window of at most `length`, which is a minute or more.
Micros RoundEnd(Micros from, Micros length) {
  const Micros round = *std::ranges::find_if(kRoundLengths, [&](Micros l) { return l <= length; });
  return FloorTo(from, round) + round;
}

class Importer {
 public:
  explicit Importer(const ImportOptions& options) : options_(options), server_(options.access) {}

  Status Open() {
    if (options_.window.from >= options_.window.to)
      return InvalidArgument("the window is empty: --from is not before --to");
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                        MetricNames(&server_, options_.window));
    metrics_ = MetricsOfGpus(names);
    std::ranges::copy_if(metrics_, std::back_inserter(owner_metrics_), IsOwnerMetric);
    std::ranges::copy_if(metrics_, std::back_inserter(gpu_metrics_), std::not_fn(IsOwnerMetric));
    other_metrics_ = names.size() - metrics_.size();
    if (metrics_.empty()) {
      return NotFound(
          "{}: none of its {} metrics in this window is one of a GPU exporter "
          "(docs/fields.md lists "
          "them); is this the Prometheus that scrapes the GPUs, and the window right?",
          server_.name(), names.size());
    }
    FW_ASSIGN_OR_RETURN(way_, ChooseWay(&server_, options_.way, options_.window));
    FW_ASSIGN_OR_RETURN(replica_labels_, ReplicaLabels(&server_));
    lost_ = unread().lost;
    return absl::OkStatus();
  }

  // How long the first window may be, which begins with `from`. The taker holds nothing on return.
  StatusOr<Micros> FirstLength(Micros from, Taker* taker) {
    const Window probed = {from, std::min(from + kProbed, options_.window.to)};
    if (CanTakeInParts()) {
      FW_ASSIGN_OR_RETURN(const Parts parts, InstancesIn(probed));
      const std::vector<Parts::Group> hosts = parts.Groups();
      std::vector<Parts::Group> some;
      const size_t n = std::min(kProbedHosts, hosts.size());
      for (size_t k = 0; k < n; ++k) some.push_back(hosts[k * hosts.size() / n]);
      const std::vector<telemetry::ReadMatcher> one_of = Parts::OneOf(some);
      // Where they have more than fits, they say so.
      FW_RETURN_IF_ERROR(
          Fill({.metrics = gpu_metrics_, .one_of = one_of}, probed, kWhatFits, taker).status());
      const double all = taker->Fill() * static_cast<double>(hosts.size()) / static_cast<double>(n);
      taker->Clear();
      return all > 0 ? LengthFor(all, probed) : kFirstSlice;
    }
    double most = 0;
    const size_t probes = std::min(kProbes, metrics_.size());
    for (size_t k = 0; k < probes; ++k) {
      taker->Clear();
      const size_t at = (2 * k + 1) * metrics_.size() / (2 * probes);
      FW_RETURN_IF_ERROR(
          Fill({.metrics = absl::MakeConstSpan(metrics_).subspan(at, 1)}, probed, kHowMuch, taker)
              .status());
      most = std::max(most, taker->Fill());
    }
    taker->Clear();
    // What a series is besides its points is counted for each ten minutes: too much, on purpose.
    const double all = most * static_cast<double>(metrics_.size());
    return all > 0 ? LengthFor(all, probed) : kFirstSlice;
  }

  // Reads all metrics of the window, and hands what is of `slice` on. False, and nothing was handed
  // on: it has more samples than are to be held at once, as where a fleet begins after weeks of
  // nothing.
  StatusOr<bool> Take(Window window, Window slice, Taker* taker) {
    last_fill_ = 0;
    const auto most = window.to - window.from > kShortest ? kWhatFits : kHowMuch;
    FW_ASSIGN_OR_RETURN(const bool fits, Fill({.metrics = metrics_}, window, most, taker));
    if (!fits) return false;
    FW_RETURN_IF_ERROR(Give(slice, /*more=*/false, taker));
    return true;
  }

  // The same of a window of any length: in about `n` parts of the fleet, more where that turns out
  // to be too few. False: what owners' series say, which counts for all parts, is too much already.
  StatusOr<bool> TakeInParts(Window window, Window slice, size_t n, Taker* taker,
                             absl::FunctionRef<void(double)> done) {
    last_fill_ = 0;
    FW_ASSIGN_OR_RETURN(const std::vector<Parts::Group> groups, GroupsIn(window));
    if (!owner_metrics_.empty()) {
      FW_ASSIGN_OR_RETURN(const bool fits,
                          Fill({.metrics = owner_metrics_}, window, kWhatFits, taker));
      if ((!fits || taker->Fill() > kMostOwners) && window.to - window.from > kShortest) {
        taker->Clear();
        return false;
      }
      FW_RETURN_IF_ERROR(Give(slice, /*more=*/true, taker));
    }
    struct Piece {
      std::vector<Parts::Group> groups;
      Window window;
      double share = 0;  // of all
    };
    std::vector<Piece> todo;  // the last one first
    const auto add = [&todo](std::vector<std::vector<Parts::Group>> parts, Window of,
                             double share) {
      size_t all = 0;
      for (const auto& part : parts) all += part.size();
      for (auto& part : parts | std::views::reverse) {
        const double own = share * static_cast<double>(part.size()) / static_cast<double>(all);
        todo.push_back({std::move(part), of, own});
      }
    };
    add(Parts::Cut(groups, n), window, 1);
    double read = 0;
    while (!todo.empty()) {
      Piece piece = std::move(todo.back());
      todo.pop_back();
      const Window of = piece.window;
      const bool can_be_cut = piece.groups.size() > 1 || of.to - of.from > kShortest;
      const std::vector<telemetry::ReadMatcher> one_of = Parts::OneOf(piece.groups);
      FW_ASSIGN_OR_RETURN(const bool fits, Fill({.metrics = gpu_metrics_, .one_of = one_of}, of,
                                                can_be_cut ? kWhatFits : kHowMuch, taker));
      if (fits) {
        FW_RETURN_IF_ERROR(Give(slice, /*more=*/!todo.empty(), taker));
        done(read += piece.share);
      } else if (piece.groups.size() > 1) {
        add(Parts::Cut(std::move(piece.groups), 2), of, piece.share);
      } else {
        // Exporters that cannot be told apart, as where all are localhost: in shorter times.
        const Micros middle = FloorTo((of.from + of.to) / 2, kMicrosPerSecond);
        todo.push_back({piece.groups, {middle, of.to}, piece.share / 2});
        todo.push_back({std::move(piece.groups), {of.from, middle}, piece.share / 2});
      }
    }
    return true;
  }
  bool CanTakeInParts() const { return !server_.is_folder(); }

  ImportResult Result() {
    result_.way = way_->name();
    result_.metrics = metrics_.size();
    result_.samples = samples_;
    result_.unread = way_->unread();
    result_.requests = server_.requests();
    result_.bytes = server_.bytes();
    return result_;
  }
  FirstLook Look(const ingest::IngestSide& side, Window looked_at, double seconds);

  const Unread& unread() const { return way_->unread(); }
  const std::vector<std::string>& replica_labels() const { return replica_labels_; }
  // Whether the window that failed has shown damage that is to be passed by: it is asked again.
  bool FoundDamage(const Status& failed) {
    if (failed.code() != absl::StatusCode::kDataLoss || unread().lost == lost_) return false;
    lost_ = unread().lost;
    return true;
  }

  uint64_t samples() const { return samples_; }
  // Of the taker by the last window.
  double last_fill() const { return last_fill_; }
  uint64_t rows() const { return result_.rows; }

 private:
  // What is asked for at once: of these metrics, where the labels are one of these; none: all.
  struct Wanted {
    absl::Span<const std::string> metrics;
    absl::Span<const telemetry::ReadMatcher> one_of = {};
  };
  enum Most : uint8_t { kWhatFits, kHowMuch };  // of what the taker holds; whatever there is
  // One window's reading, by one thread or several.
  struct Round {
    Round(const Wanted& what, Window w, Most m, Taker* t)
        : wanted(what), window(w), most(m), taker(t) {}
    const Wanted wanted;
    const Window window;
    const Most most;
    std::atomic<size_t> next{0};  // of the metrics
    Mutex mutex;
    Taker* const taker FW_PT_GUARDED_BY(mutex);
    Status failed FW_GUARDED_BY(mutex);  // the first failure
    bool full FW_GUARDED_BY(mutex) = false;
  };

  // Reads it into the taker, which has nothing before. False: it is more than fits.
  StatusOr<bool> Fill(const Wanted& wanted, Window window, Most most, Taker* taker) {
    last_samples_ = 0;
    taker->Clear();
    held_fill_ = taker->Fill();
    Round round(wanted, window, most, taker);
    const size_t threads = server_.is_folder() ? 1 : static_cast<size_t>(options_.parallel);
    std::vector<std::jthread> others;
    for (size_t k = 1; k < std::min(threads, wanted.metrics.size()); ++k)
      others.emplace_back([this, &round] { ReadMetrics(&round); });
    ReadMetrics(&round);
    others.clear();  // joined
    const MutexLock lock(round.mutex);
    FW_RETURN_IF_ERROR(round.failed);
    return !round.full;
  }

  // Hands on what was read.
  Status Give(Window slice, bool more, Taker* taker) {
    last_fill_ += taker->Fill() - held_fill_;
    samples_ += last_samples_;
    FW_ASSIGN_OR_RETURN(const Taken taken, taker->Take(slice, more));
    result_.Add(taken);
    return absl::OkStatus();
  }

  // Who may speak in the window, and those whose series have no instance.
  StatusOr<Parts> InstancesIn(Window window) {
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> instances,
                        InstancesOf(&server_, gpu_metrics_, window));
    Parts parts;
    for (const std::string& instance : instances) parts.SeeInstance(instance);
    parts.SeeInstance("");
    return parts;
  }

  // The same with what they speak of: the begin and the end of the window show nearly everybody,
  // and who came back under another address.
  StatusOr<std::vector<Parts::Group>> GroupsIn(Window window) {
    FW_ASSIGN_OR_RETURN(Parts parts, InstancesIn(window));
    const std::vector<telemetry::ReadMatcher> one_of = Parts::OneOf(parts.Groups());
    std::vector<Window> looks = {{std::max(window.from, window.to - kProbed), window.to}};
    if (looks.front().from - window.from > kProbed)
      looks.push_back({window.from, window.from + kProbed});
    for (const std::string& metric : MetricsToList(gpu_metrics_)) {
      for (const telemetry::ReadMatcher& one : one_of) {
        const Selector selector = SelectorOf(metric, {one});
        for (const Window& look : looks) {
          FW_RETURN_IF_ERROR(Read(
              selector, look, [&](const telemetry::MetricSeries& series) { parts.See(series); }));
        }
      }
    }
    return parts.Groups();
  }

  // Reads metrics until none is left, or one has failed.
  void ReadMetrics(Round* round) {
    const auto metrics = round->wanted.metrics;
    for (size_t k = round->next++; k < metrics.size(); k = round->next++) {
      const Status read = ReadMetric(metrics[k], round);
      const MutexLock lock(round->mutex);
      if (!read.ok() && round->failed.ok()) round->failed = read;
      round->full |= round->most == kWhatFits && round->taker->Fill() > 1;
      if (!round->failed.ok() || round->full) return;
    }
  }

  Status ReadMetric(const std::string& metric, Round* round) {
    if (options_.matchers.empty()) return ReadMatching(metric, {}, round);
    for (const auto& matchers : options_.matchers)
      FW_RETURN_IF_ERROR(ReadMatching(metric, matchers, round));
    return absl::OkStatus();
  }

  Status ReadMatching(const std::string& metric,
                      const std::vector<telemetry::ReadMatcher>& matchers, Round* round) {
    const auto take = [&](const telemetry::MetricSeries& series) {
      const MutexLock lock(round->mutex);
      last_samples_ += series.points.size();
      round->taker->Add(series);
    };
    Selector selector = SelectorOf(metric, matchers);
    if (round->wanted.one_of.empty()) return Read(selector, round->window, take);
    selector.matchers.emplace_back();
    for (const telemetry::ReadMatcher& one : round->wanted.one_of) {
      selector.matchers.back() = one;
      FW_RETURN_IF_ERROR(Read(selector, round->window, take));
    }
    return absl::OkStatus();
  }

  // What is too much at once is asked for in halves; nothing of a window that failed counts.
  Status Read(const Selector& selector, Window window, Visit visit) {
    for (Micros most = most_at_once_; window.to - window.from > most; most = most_at_once_) {
      FW_RETURN_IF_ERROR(Read(selector, {window.from, window.from + most}, visit));
      window.from += most;
    }
    const Status read = way_->Read(selector, window, visit);
    if (read.ok() || read.code() != absl::StatusCode::kResourceExhausted) return read;
    const Micros middle = FloorTo((window.from + window.to) / 2, kMicrosPerSecond);
    if (middle <= window.from || middle >= window.to) return read;
    most_at_once_ = window.to - middle;  // as for every read from now on
    FW_RETURN_IF_ERROR(Read(selector, {window.from, middle}, visit));
    return Read(selector, {middle, window.to}, visit);
  }

  const ImportOptions& options_;
  Server server_;
  std::unique_ptr<Way> way_;
  std::vector<std::string> metrics_, replica_labels_;
  std::vector<std::string> gpu_metrics_, owner_metrics_;  // of metrics_
  uint64_t other_metrics_ = 0, samples_ = 0, last_samples_ = 0;
  double last_fill_ = 0, held_fill_ = 0;  // of it what stays from part to part
  uint64_t lost_ = 0;                     // of unread(), that is known
  std::atomic<Micros> most_at_once_ = kLongestSlice;
  ImportResult result_;
};

FirstLook Importer::Look(const ingest::IngestSide& side, Window looked_at, double seconds) {
  FirstLook look{.way = std::string(way_->name()),
                 .metrics = {},
                 .owner_metrics = {},
                 .other_metrics = other_metrics_,
                 .looked_at = looked_at,
                 .samples = samples_,
                 .rows = result_.rows,
                 .refused = result_.refused,
                 .seconds = seconds,
                 .unread = unread()};
  look.metrics = gpu_metrics_;
  look.owner_metrics = owner_metrics_;
  side.live.ForEachGpu(0, [&](const ingest::GpuNow& gpu) {
    ++look.gpus;
    ++look.models[side.registry.model(gpu.model).value_or(store::ModelRecord{}).name];
    constexpr std::pair<uint32_t, std::string_view> kReasons[] = {
        {telemetry::kTensorMissing, "tensor_missing"},
        {telemetry::kClockMissing, "clock_missing"},
        {telemetry::kModelUnknown, "model_unknown"},
        {telemetry::kOutOfRange, "out_of_range"}};
    for (const auto& [flag, reason] : kReasons) {
      if ((gpu.flags & flag) == 0) continue;
      ++look.not_computable[std::string(reason)];
      break;
    }
  });
  look.jobs = static_cast<uint64_t>(side.jobs.stats().jobs);
  return look;
}

}  // namespace

StatusOr<FirstLook> LookAt(const ImportOptions& options, const hardware::Catalog& catalog) {
  Importer importer(options);
  FW_RETURN_IF_ERROR(importer.Open());
  FW_ASSIGN_OR_RETURN(const auto taker, StoreTaker::Into(options.taking, catalog, nullptr));
  taker->AddReplicaLabels(importer.replica_labels());
  Window look = {std::max(options.window.from, options.window.to - kLook), options.window.to};
  size_t parts = 1;
  if (importer.CanTakeInParts()) {
    FW_ASSIGN_OR_RETURN(const Micros length, importer.FirstLength(look.from, taker.get()));
    parts = static_cast<size_t>((look.to - look.from + length - 1) / length);
  }
  Micros begin = MonotonicNow();
  for (;;) {
    const StatusOr<bool> took =
        parts == 1 ? importer.Take(look, look, taker.get())
                   : importer.TakeInParts(look, look, parts, taker.get(), [](double) {});
    if (!took.ok() && importer.FoundDamage(took.status())) continue;
    FW_RETURN_IF_ERROR(took.status());
    if (*took) break;
    look.from = (look.from + look.to) / 2;
    begin = MonotonicNow();
  }
  return importer.Look(*taker->own(), look, ToSeconds(MonotonicNow() - begin));
}

StatusOr<ImportResult> Import(const ImportOptions& options, OpenTaker open) {
  Importer importer(options);
  FW_RETURN_IF_ERROR(importer.Open());
  FW_ASSIGN_OR_RETURN(Taker* const taker, open());
  taker->AddReplicaLabels(importer.replica_labels());
  const Window all = options.window;
  Micros length = 0;  // of the next window; 0: not known yet
  Micros longest = kPartsSlice;
  const Micros max_span = options.taking.max_span;
  const auto tell = [&](Micros at, double further) {
    if (!options.progress) return;
    options.progress({.all = all,
                      .done = at,
                      .share = (static_cast<double>(at - all.from) + further) /
                               static_cast<double>(all.to - all.from),
                      .samples = importer.samples(),
                      .rows = importer.rows()});
  };
  Micros begins = all.from;  // what came just before is not known yet
  for (Micros at = begins; at < all.to;) {
    const Window unread = importer.unread().NextAfter(at == begins ? at - max_span : at);
    if (unread.from <= at) {
      // No minute of a rollup is of two imports, should the rest come one day.
      at = begins = FloorTo(unread.to + max_span + kMicrosPerMinute - 1, kMicrosPerMinute);
      continue;
    }
    Window slice = {at, std::min(all.to, unread.from)};
    const auto take = [&]() -> StatusOr<bool> {
      if (length == 0) {
        FW_ASSIGN_OR_RETURN(length, importer.FirstLength(at, taker));
      }
      const bool may_part = importer.CanTakeInParts();
      const Micros in_parts = std::min(longest, static_cast<Micros>(kMostParts) * length);
      slice.to = std::min(slice.to, RoundEnd(at, may_part ? std::max(length, in_parts) : length));
      if (taker->WithinHours())
        slice.to = std::min(slice.to, FloorTo(at, kMicrosPerHour) + kMicrosPerHour);
      // What came just before the window tells what its first samples stand for.
      const Window window = {at == begins ? at - max_span : at, slice.to};
      const auto parts = static_cast<size_t>(
          std::max<Micros>(options.parts, (slice.to - slice.from + length - 1) / length));
      if (!may_part || parts == 1) return importer.Take(window, slice, taker);
      FW_ASSIGN_OR_RETURN(const bool took,
                          importer.TakeInParts(window, slice, parts, taker, [&](double share) {
                            tell(at, share * static_cast<double>(slice.to - slice.from));
                          }));
      if (!took) longest = std::max((slice.to - slice.from) / 2, kMicrosPerMinute);
      return took;
    };
    const StatusOr<bool> took = take();
    if (!took.ok() && importer.FoundDamage(took.status())) continue;
    if (!took.ok()) {
      const std::string until =
          at == all.from ? "nothing was taken"
                         : fmt::format("what is before {} is stored", FormatTime(slice.from));
      const std::string next = PartsOf(took.status()).next;
      return Advise(took.status(), fmt::format("{}{}{}: the same command again goes on", next,
                                               next.empty() ? "" : "; ", until));
    }
    if (!*took) {
      length = std::min(length, std::max(FloorTo((slice.to - slice.from) / 2, kMicrosPerMinute),
                                         kMicrosPerMinute));
      continue;
    }
    at = slice.to;
    tell(at, 0);
    length = LengthFor(importer.last_fill(), slice);
  }
  FW_RETURN_IF_ERROR(taker->End());
  return importer.Result();
}

StatusOr<ImportResult> ImportInto(const store::Options& to, const ImportOptions& options,
                                  const hardware::Catalog& catalog) {
  store::Options keep = to;
  keep.raw_retention = keep.minute_retention = keep.hour_retention = kKeepAll;
  std::unique_ptr<store::Store> store;
  std::unique_ptr<StoreTaker> taker;  // last: it uses the store until it ends
  return Import(options, [&]() -> StatusOr<Taker*> {
    FW_ASSIGN_OR_RETURN(store, store::OpenDuckDbStore(keep));
    FW_ASSIGN_OR_RETURN(taker, StoreTaker::Into(options.taking, catalog, store.get()));
    return taker.get();
  });
}

}  // namespace flopwatch::history
