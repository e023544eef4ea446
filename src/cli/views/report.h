// `flopwatch report`: the fleet over a window as one document, written for a terminal, as Markdown,
// as one HTML file without outside references, or as JSON. All four say the same.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "base/json_read.h"
#include "cli/views/style.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {

struct ReportJob {
  std::string job, name, user, workflow, flags;
  bool running = false;
  UsageView usage;
  std::string mfu_verdict;  // "alarm", "impossible"; "" = none
};

struct ReportUser {
  std::string user;  // "" = jobs without a known user
  int64_t jobs = 0;
  double gpu_seconds = 0, computable_s = 0, useful_s = 0, lost_s = 0;
  // Of the job without an OFU that held the most; why the user has none where all are such.
  std::string reason;
  double reason_s = 0;
  std::optional<double> ofu() const {
    return computable_s > 0 ? std::optional<double>(useful_s / computable_s) : std::nullopt;
  }
};

struct ReportModel {
  std::string model;
  int64_t gpus = 0;
  UsageView usage;
};

struct ReportLoss {
  std::string reason;  // code of the API
  double gpu_seconds = 0;
};

struct ReportTarget {
  std::string url, state, error;
  std::optional<double> age_s;
};

struct ReportDivergence {
  int64_t with_claim = 0, compared = 0, flagged = 0;              // jobs
  std::optional<double> mae, pearson, pearson_low, pearson_high;  // by jobs
  std::optional<double> mae_by_gpu_seconds;
  Json jobs;  // rows of GET /api/v1/divergence, those that do not agree
};

struct Report {
  std::string source;   // server or data directory
  std::string written;  // RFC 3339
  WindowView window;
  UsageView fleet;
  SeriesView series;
  std::vector<ReportModel> models;
  std::vector<ReportJob> worst_jobs;  // by GPU-hours lost
  int64_t total_jobs = 0;
  int64_t jobs_read =
      0;  // of them, those in `users`; fewer than total_jobs only beyond the reading limit
  double job_gpu_seconds = 0;     // allocated to any job
  std::vector<ReportUser> users;  // by GPU-hours lost
  size_t users_left_out = 0;
  std::vector<ReportLoss> not_computable;
  std::vector<ReportTarget> down;
  int64_t targets = 0, targets_up = 0;
  ReportDivergence divergence;  // with_claim 0: no application reported an MFU
  Json advice;                  // GET /api/v1/advise, or null

  // GPU time deployed that no job owned.
  double unallocated_s() const { return std::max(0.0, fleet.gpu_seconds - job_gpu_seconds); }
};

// Collects per-user sums over pages of GET /api/v1/jobs.
class UserSums {
 public:
  void Add(const Json& jobs_answer);
  std::vector<ReportUser> Worst(size_t limit, size_t* left_out) const;
  int64_t jobs() const { return jobs_; }
  double gpu_seconds() const { return gpu_seconds_; }

 private:
  std::map<std::string, ReportUser> users_;
  int64_t jobs_ = 0;
  double gpu_seconds_ = 0;
};

// `divergence`: GET /api/v1/divergence, or null.
Report MakeReport(const Json& fleet, const Json& worst_jobs, const UserSums& users,
                  const Json& targets, size_t top, const Json& divergence = {});

std::string ReportText(const Report& report, const ViewOptions& view);
std::string ReportMarkdown(const Report& report);
std::string ReportHtml(const Report& report);
std::string ReportJson(const Report& report);

}  // namespace flopwatch::cli
