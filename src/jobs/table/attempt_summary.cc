#include <algorithm>
#include <map>
#include <set>

#include "fmt/format.h"
#include "jobs/table/summary.h"

namespace flopwatch::table {
namespace {

using jobs::AttemptRecord;

constexpr double kLowDuty = 0.1;
constexpr int64_t kManyGpus = 8;
constexpr std::string_view kEachJob = "each job once", kGpuTime = "GPU time";

// Attempts that started, with what the sums are made of.
struct Group {
  double jobs = 0, gpu_s = 0, duty_jobs = 0, duty_gpu_s = 0, duty_sum = 0, duty_weighted = 0;
  double idle_jobs = 0, idle_gpu_s = 0;  // below kLowDuty

  void Add(const AttemptRecord& a, double held) {
    ++jobs;
    gpu_s += held;
    if (a.duty < 0) return;
    ++duty_jobs;
    duty_sum += a.duty;
    duty_gpu_s += held;
    duty_weighted += a.duty * held;
    if (a.duty >= kLowDuty) return;
    ++idle_jobs;
    idle_gpu_s += held;
  }
};

std::optional<double> Ratio(double part, double whole) {
  if (!(whole > 0)) return std::nullopt;
  return part / whole;
}

std::string SizeName(int64_t gpus) {
  if (gpus < 0) return "";
  if (gpus <= 2) return fmt::format("{}", gpus);
  int64_t top = 4;
  while (top < gpus) top *= 2;
  return fmt::format("{}-{}", top / 2 + 1, top);
}

std::string GroupName(const AttemptRecord& a, std::string_view by) {
  if (by == "user") return a.user;
  if (by == "account") return a.account;
  if (by == "partition") return a.partition;
  if (by == "qos") return a.qos;
  if (by == "workflow") return a.workflow;
  if (by == "state") return a.state;
  return SizeName(a.gpus);
}

class AttemptSummary {
 public:
  AttemptSummary(absl::Span<const AttemptRecord> attempts, const SummaryOptions& options)
      : options_(options) {
    for (const AttemptRecord& a : attempts) Add(a);
    durations_.Sort();
    waits_.Sort();
    gpus_.Sort();
    duties_.Sort();
  }

  std::vector<Statistic> Run() {
    Whole();
    Sizes();
    Distributions();
    for (const std::string& by : options_.by) {
      if (by == "hour") {
        Hours();
      } else {
        Divide(by);
      }
    }
    return std::move(out_);
  }

 private:
  // GPU-seconds held; 0 where the end or the number of GPUs is not known.
  double Held(const AttemptRecord& a) const {
    Micros end = a.end;
    if (end == jobs::kOpenEnd) end = options_.as_of;
    if (a.gpus < 0 || end <= a.start) return 0;
    return static_cast<double>(a.gpus) * ToSeconds(end - a.start);
  }

  void Add(const AttemptRecord& a) {
    ++arrivals_[LocalTime(a.submit > 0  ? a.submit
                          : a.start > 0 ? a.start
                                        : a.eligible,
                          options_)
                    .hour()];
    if (a.start == 0) {
      ++never_started_;
      return;
    }
    const double held = Held(a);
    whole_.Add(a, held);
    started_.push_back(&a);
    held_.push_back(held);
    if (!a.user.empty()) users_.insert(a.user);
    if (!a.account.empty()) accounts_.insert(a.account);
    if (a.end != jobs::kOpenEnd) durations_.Add(ToSeconds(a.end - a.start), 1);
    if (a.submit > 0) waits_.Add(ToSeconds(a.start - a.submit), 1);
    if (a.gpus >= 0) gpus_.Add(static_cast<double>(a.gpus), 1);
    if (a.duty >= 0) duties_.Add(a.duty, 1);
    if (a.gpus >= kManyGpus) many_gpu_s_ += held;
    multi_ += a.gpus > 1 ? 1 : 0;
    single_ += a.gpus == 1 ? 1 : 0;
  }

  void Put(std::string_view name, std::optional<double> value, std::string_view unit,
           std::string_view weight = "") {
    out_.push_back({std::string(name), by_, group_, value, std::string(unit), std::string(weight)});
  }

  void Whole() {
    const double without = static_cast<double>(options_.without_gpus);
    Put("jobs", whole_.jobs, "jobs");
    Put("jobs_without_gpus", without, "jobs");
    Put("share_of_jobs_with_gpus", Ratio(whole_.jobs, whole_.jobs + without), "ratio", kEachJob);
    Put("jobs_that_never_started", never_started_, "jobs");
    Put("users", users_.empty() ? std::nullopt : Ratio(static_cast<double>(users_.size()), 1),
        "users");
    Put("accounts",
        accounts_.empty() ? std::nullopt : Ratio(static_cast<double>(accounts_.size()), 1),
        "accounts");
    Put("gpu_hours", whole_.gpu_s / 3600, "gpu_h");
    Duty(whole_);
    Put("duty_median_over_jobs", duties_.Quantile(0.5), "ratio", kEachJob);
    Put("duty_coverage", Ratio(whole_.duty_gpu_s, whole_.gpu_s), "ratio", kGpuTime);
    const bool known = whole_.duty_jobs > 0;
    Put("jobs_with_duty_below_0.1", known ? Ratio(whole_.idle_jobs, 1) : std::nullopt, "jobs");
    Put("gpu_hours_in_jobs_with_duty_below_0.1",
        known ? Ratio(whole_.idle_gpu_s, 3600) : std::nullopt, "gpu_h");
  }

  void Duty(const Group& g) {
    Put("duty_mean_over_jobs", Ratio(g.duty_sum, g.duty_jobs), "ratio", kEachJob);
    Put("duty_mean_over_gpu_time", Ratio(g.duty_weighted, g.duty_gpu_s), "ratio", kGpuTime);
  }

  void Sizes() {
    Put("jobs_of_2_gpus_or_more", multi_, "jobs");
    Put("share_of_jobs_of_1_gpu", Ratio(single_, gpus_.weight()), "ratio", kEachJob);
    Put("gpus_mean_over_jobs", gpus_.Mean(), "gpus", kEachJob);
    Put("gpus_of_largest_job", gpus_.Max(), "gpus");
    Put("share_of_gpu_hours_in_jobs_of_8_gpus_or_more", Ratio(many_gpu_s_, whole_.gpu_s), "ratio",
        kGpuTime);
    std::vector<double> held = held_;
    std::ranges::sort(held, std::greater<>());
    double top = 0;
    for (size_t k = 0; k < held.size() / 10; ++k) top += held[k];
    Put("share_of_gpu_hours_in_largest_tenth_of_jobs", Ratio(top, whole_.gpu_s), "ratio", kGpuTime);
  }

  void Distributions() {
    Put("duration_mean_over_jobs", durations_.Mean(), "s", kEachJob);
    constexpr std::pair<std::string_view, double> kQuantiles[] = {
        {"p10", 0.1}, {"p25", 0.25}, {"median", 0.5}, {"p75", 0.75},
        {"p90", 0.9}, {"p95", 0.95}, {"p99", 0.99}};
    for (const auto& [name, q] : kQuantiles)
      Put(fmt::format("duration_{}_over_jobs", name), durations_.Quantile(q), "s", kEachJob);
    Put("wait_mean_over_jobs", waits_.Mean(), "s", kEachJob);
    Put("wait_median_over_jobs", waits_.Quantile(0.5), "s", kEachJob);
  }

  // Jobs that came in an hour of the day, over what they would be if all hours were alike.
  void Hours() {
    double all = 0;
    for (const double n : arrivals_) all += n;
    by_ = "hour";
    for (int h = 0; h < 24; ++h) {
      group_ = fmt::format("{:02}", h);
      Put("arrivals_over_mean_hour", Ratio(arrivals_[h] * 24, all), "ratio", kEachJob);
    }
    by_ = group_ = "";
  }

  void Divide(const std::string& by) {
    std::map<std::string, Group> groups;
    for (size_t k = 0; k < started_.size(); ++k)
      groups[GroupName(*started_[k], by)].Add(*started_[k], held_[k]);
    std::vector<std::pair<std::string, Group>> sorted(groups.begin(), groups.end());
    std::ranges::stable_sort(
        sorted, [](const auto& a, const auto& b) { return a.second.gpu_s > b.second.gpu_s; });
    by_ = by;
    for (const auto& [name, group] : sorted) {
      group_ = name.empty() ? "(unknown)" : name;
      Put("jobs", group.jobs, "jobs");
      Put("gpu_hours", group.gpu_s / 3600, "gpu_h");
      Put("share_of_gpu_hours", Ratio(group.gpu_s, whole_.gpu_s), "ratio", kGpuTime);
      if (whole_.duty_jobs > 0) Duty(group);
    }
    by_ = group_ = "";
  }

  const SummaryOptions& options_;
  Group whole_;
  std::vector<const AttemptRecord*> started_;
  std::vector<double> held_;  // of started_
  std::set<std::string> users_, accounts_;
  Weighted durations_, waits_, gpus_, duties_;
  double many_gpu_s_ = 0, multi_ = 0, single_ = 0, never_started_ = 0;
  std::array<double, 24> arrivals_{};
  std::vector<Statistic> out_;
  std::string by_, group_;
};

}  // namespace

std::vector<Statistic> SummariseAttempts(absl::Span<const AttemptRecord> attempts,
                                         const SummaryOptions& options) {
  return AttemptSummary(attempts, options).Run();
}

}  // namespace flopwatch::table
