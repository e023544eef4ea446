#include <algorithm>
#include <limits>
#include <map>

#include "fmt/format.h"
#include "jobs/table/summary.h"

namespace flopwatch::table {
namespace {

using jobs::AttemptRecord;
using jobs::NodeRecord;

// How much of a pool, or of all pools, there was, lent and asked for, over a time in which none of
// it changed.
struct Piece {
  Micros from = 0, to = 0;
  double capacity = 0, running = 0, waiting = 0;
};
// A change of that at a time.
struct Step {
  Micros at = 0;
  double capacity = 0, running = 0, waiting = 0;
  int pools = 0;  // known from here on, or not any more
};
using Name = std::pair<std::string, std::string>;  // cluster and pool

// Pieces of the time in which any pool was known.
std::vector<Piece> PiecesOf(std::vector<Step> steps) {
  std::ranges::sort(steps, {}, &Step::at);
  std::vector<Piece> pieces;
  Piece now;
  int pools = 0;
  for (size_t k = 0; k < steps.size();) {
    now.to = steps[k].at;
    if (pools > 0 && now.to > now.from) pieces.push_back(now);
    now.from = now.to;
    for (; k < steps.size() && steps[k].at == now.from; ++k) {
      now.capacity += steps[k].capacity;
      now.running += steps[k].running;
      now.waiting += steps[k].waiting;
      pools += steps[k].pools;
    }
  }
  return pieces;
}

// Sums over pieces, times of each local hour or day apart.
struct PoolSums {
  double capacity_s = 0, running_s = 0, waiting_s = 0, time_s = 0, both_s = 0, none_s = 0;
  Weighted ratio;

  void Add(const Piece& p) {
    const double s = ToSeconds(p.to - p.from);
    time_s += s;
    capacity_s += p.capacity * s;
    running_s += p.running * s;
    waiting_s += p.waiting * s;
    both_s += p.waiting > 0 && p.running < p.capacity ? s : 0;
    none_s += p.running == 0 ? s : 0;
    if (p.capacity > 0) ratio.Add(p.running / p.capacity, s);
  }
};

std::optional<double> Over(double part, double whole) {
  if (!(whole > 0)) return std::nullopt;
  return part / whole;
}

// The parts of a piece between full local hours, with what `part` calls each.
template <typename Add>
void ByHours(const Piece& piece, const SummaryOptions& options, bool days, const Add& add) {
  Piece p = piece;
  while (p.from < piece.to) {
    const absl::CivilSecond local = LocalTime(p.from, options);
    const Micros in_hour =
        (local.minute() * 60 + local.second()) * kMicrosPerSecond + (p.from % kMicrosPerSecond);
    p.to = std::min(piece.to, p.from - in_hour + kMicrosPerHour);
    add(days ? absl::FormatCivilTime(absl::CivilDay(local)) : fmt::format("{:02}", local.hour()),
        p);
    p.from = p.to;
  }
}

class PoolSummary {
 public:
  PoolSummary(absl::Span<const AttemptRecord> attempts, absl::Span<const NodeRecord> pools,
              const SummaryOptions& options)
      : options_(options), hosts_(options.rows == RowKind::kHosts) {
    for (const NodeRecord& n : pools) {
      const double gpus = static_cast<double>(n.gpus);
      std::vector<Step>& steps = steps_[{n.cluster, n.node}];
      steps.push_back({n.from, gpus, 0, 0, 1});
      steps.push_back({n.to, -gpus, 0, 0, -1});
    }
    for (const AttemptRecord& a : attempts) {
      const double gpus = static_cast<double>(a.gpus);
      std::vector<Step>& steps = steps_[{a.cluster, a.partition}];
      if (a.start > 0) {
        steps.push_back({a.start, 0, gpus, 0, 0});
        steps.push_back({a.end, 0, -gpus, 0, 0});
        parts_[a.workflow] += gpus * ToSeconds(a.end - a.start);
      } else {
        steps.push_back({a.submit, 0, 0, gpus, 0});
        steps.push_back({a.end, 0, 0, -gpus, 0});
      }
    }
  }

  std::vector<Statistic> Run() {
    std::vector<Step> all;
    std::map<Name, PoolSums> pools;
    PoolSums each;  // over the time of every pool
    for (auto& [name, steps] : steps_) {
      all.insert(all.end(), steps.begin(), steps.end());
      PoolSums& own = pools[name];
      for (const Piece& p : PiecesOf(std::move(steps))) {
        own.Add(p);
        each.Add(p);
      }
    }
    const std::vector<Piece> whole = PiecesOf(std::move(all));
    Whole(whole, each);
    for (const std::string& by : options_.by) {
      if (by == "pool") {
        ByPool(&pools);
      } else if (by == "part") {
        ByPart(each);
      } else {
        ByTime(by, whole);
      }
    }
    return std::move(out_);
  }

 private:
  std::string_view ratio() const { return hosts_ ? "host_utilisation" : "allocation"; }
  std::string_view unit() const { return hosts_ ? "host_h" : "gpu_h"; }
  std::string Named(std::string_view gpus, std::string_view hosts) const {
    return std::string(hosts_ ? hosts : gpus);
  }

  void Put(std::string_view name, std::optional<double> value, std::string_view unit,
           std::string_view weight = "") {
    out_.push_back({std::string(name), by_, group_, value, std::string(unit), std::string(weight)});
  }

  void Whole(const std::vector<Piece>& pieces, const PoolSums& each) {
    PoolSums sums;
    Micros run = 0, longest = 0, since = 0, last = 0, begin = 0;
    for (const Piece& p : pieces) {
      sums.Add(p);
      if (p.running > 0 || p.from != last) run = 0;
      if (p.running == 0) {
        if (run == 0) begin = p.from;
        run += p.to - p.from;
        if (run > longest) {
          longest = run;
          since = begin;
        }
      }
      last = p.to;
    }
    sums.ratio.Sort();
    Put("pools", static_cast<double>(steps_.size()), "pools");
    Put("minutes", sums.time_s / 60, "min");
    Put(Named("capacity_gpus_mean_over_time", "hosts_mean_over_time"),
        Over(sums.capacity_s, sums.time_s), Named("gpus", "hosts"), "time");
    double most = 0;
    for (const Piece& p : pieces) most = std::max(most, p.capacity);
    Put(Named("capacity_gpus_max", "hosts_max"), most, Named("gpus", "hosts"));
    Put(Named("gpu_hours_of_capacity", "host_hours"), sums.capacity_s / 3600, unit());
    Put(Named("gpu_hours_allocated", "host_hours_busy"), sums.running_s / 3600, unit());
    if (!hosts_) Put("gpu_hours_waited_for", sums.waiting_s / 3600, unit());
    Put(ratio(), Over(sums.running_s, sums.capacity_s), "ratio",
        Named("GPU time of capacity", "host time"));
    Put(fmt::format("{}_mean_over_time", ratio()), sums.ratio.Mean(), "ratio", "time");
    Put(fmt::format("{}_deviation_over_time", ratio()), sums.ratio.Deviation(), "ratio", "time");
    Put(fmt::format("{}_min", ratio()), sums.ratio.Min(), "ratio");
    for (const auto& [name, q] : {std::pair("p5", 0.05), {"p50", 0.5}, {"p95", 0.95}})
      Put(fmt::format("{}_{}_over_time", ratio(), name), sums.ratio.Quantile(q), "ratio", "time");
    Put(fmt::format("{}_max", ratio()), sums.ratio.Max(), "ratio");
    if (!hosts_)
      Put("share_of_time_with_queue_beside_idle_gpus", Over(each.both_s, each.time_s), "ratio",
          "time of each pool");
    Put("minutes_with_nothing_running", sums.none_s / 60, "min");
    Put("longest_minutes_with_nothing_running", static_cast<double>(longest) / kMicrosPerMinute,
        "min");
    if (longest > 0) Put("longest_with_nothing_running_begins", ToSeconds(since), "unix_s");
  }

  void ByPool(std::map<Name, PoolSums>* pools) {
    by_ = "pool";
    for (auto& [name, sums] : *pools) {
      group_ = name.second;
      Put(Named("capacity_gpus_mean_over_time", "hosts_mean_over_time"),
          Over(sums.capacity_s, sums.time_s), Named("gpus", "hosts"), "time");
      Put(Named("gpu_hours_allocated", "host_hours_busy"), sums.running_s / 3600, unit());
      Put(ratio(), Over(sums.running_s, sums.capacity_s), "ratio",
          Named("GPU time of capacity", "host time"));
      Put(fmt::format("{}_mean_over_time", ratio()), sums.ratio.Mean(), "ratio", "time");
      if (!hosts_)
        Put("share_of_time_with_queue_beside_idle_gpus", Over(sums.both_s, sums.time_s), "ratio",
            "time");
    }
    by_ = group_ = "";
  }

  void ByPart(const PoolSums& each) {
    by_ = "part";
    for (const auto& [name, gpu_s] : parts_) {
      group_ = name.empty() ? "(all)" : name;
      Put(Named("gpu_hours_allocated", "host_hours_busy"), gpu_s / 3600, unit());
      Put("share_of_gpu_hours_allocated", Over(gpu_s, each.running_s), "ratio", "GPU time");
    }
    by_ = group_ = "";
  }

  void ByTime(const std::string& by, const std::vector<Piece>& pieces) {
    std::map<std::string, PoolSums> groups;
    for (const Piece& piece : pieces)
      ByHours(piece, options_, by == "day",
              [&](const std::string& name, const Piece& p) { groups[name].Add(p); });
    by_ = by;
    for (const auto& [name, sums] : groups) {
      group_ = name;
      Put(fmt::format("{}_mean_over_time", ratio()), sums.ratio.Mean(), "ratio", "time");
      Put("minutes", sums.time_s / 60, "min");
      Put("minutes_with_nothing_running", sums.none_s / 60, "min");
    }
    by_ = group_ = "";
  }

  const SummaryOptions& options_;
  const bool hosts_;
  std::map<Name, std::vector<Step>> steps_;
  std::map<std::string, double> parts_;
  std::vector<Statistic> out_;
  std::string by_, group_;
};

}  // namespace

std::vector<Statistic> SummarisePools(absl::Span<const AttemptRecord> attempts,
                                      absl::Span<const NodeRecord> pools,
                                      const SummaryOptions& options) {
  return PoolSummary(attempts, pools, options).Run();
}

}  // namespace flopwatch::table
