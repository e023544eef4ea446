// What jobs say of themselves (telemetry/application.h), as rules see it: the newest values, and
// what they are beside. It is the application's word; nothing of it is measured here.
//
// Rates (tokens a second, MFU) are means over windows of five minutes, by the time that each report
// stands for; what is usual is the median of the windows of the last two hours without the newest
// fifteen minutes, as for OFU. Losses and gradient norms are of single steps and scatter: five in a
// row stand for now (their median), the up to fifty before them for what is usual. A report of no
// progress (zero tokens a second) is a report, but no step. One thread.
#pragma once

#include <cstdint>
#include <deque>
#include <limits>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"
#include "telemetry/application.h"

namespace flopwatch::alerts {

class Reports {
  static constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

 public:
  static constexpr size_t kNow = 5, kUsual = 50, kFewestUsual = 20;
  // Of further ones reports are left out, counted, until others have been silent for two hours.
  static constexpr size_t kMaxJobs = 20'000;

  // NaN = not known.
  struct Of {
    double age_s = kNaN;       // since the newest report
    double interval_s = kNaN;  // between reports: the median of the last fifty
    double progress_s = kNaN;  // since the newest report of another step than the one before it
    double tokens_per_s = kNaN, usual_tokens_per_s = kNaN;
    double mfu = kNaN, usual_mfu = kNaN;
    double windows = kNaN;  // that what is usual of rates is made of
    // Spread: the range of the middle half.
    double loss = kNaN, usual_loss = kNaN, loss_spread = kNaN;
    double grad_norm = kNaN, usual_grad_norm = kNaN;
    // Reports in a row, up to the newest, with one that is no number. A step that is reported
    // again, as a metric is at every scrape, counts once.
    double not_finite = kNaN;
  };

  // Reports of one job come in the order of their time; one that is older than the newest is left
  // out: an old log that is imported says nothing of now.
  void Add(std::string_view job, const telemetry::ApplicationSample& sample);
  Of Get(std::string_view job, Micros now);
  // The time of the newest report of another step than the one before it, by the job's clock; 0 =
  // none.
  Micros Progress(std::string_view job) const;
  // Jobs without a report for two hours are forgotten.
  void Expire(Micros now);
  // What is of later than now stands in the way of what is now.
  void StepBack(Micros now);
  size_t jobs() const { return jobs_.size(); }
  uint64_t left_out() const { return left_out_; }

 private:
  struct Step {
    Micros ts = 0;
    float interval_s = 0, loss = 0, grad_norm = 0;
  };
  struct Rate {  // weighted by the time that reports stand for
    double sum = 0, seconds = 0;
  };
  struct Window {
    Micros begin = 0;
    Rate tokens, mfu;
  };
  struct Job {
    Micros newest = 0, progress = 0;
    int64_t step = -1;
    int not_finite = 0;
    int64_t bad_step = -1;  // counted in not_finite last
    std::deque<Step> steps;
    std::deque<Window> windows;
    // What Get() says besides ages, until a report comes or the next window begins.
    Of said;
    Micros said_in = -1;  // the window; -1 = not reckoned yet
  };
  static void Reckon(Micros window, Job* job);
  static void AddRates(const telemetry::ApplicationSample& sample, Job* job);

  std::map<std::string, Job, std::less<>> jobs_;
  uint64_t left_out_ = 0;
};

}  // namespace flopwatch::alerts
