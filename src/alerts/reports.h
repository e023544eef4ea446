// What jobs say of themselves (telemetry/application.h), as rules see it: the newest values, and
// what they are beside. It is the application's word; nothing of it is measured here.
//
// Rates (tokens a second, MFU) are means over windows of five minutes, by the time that each report
// stands for; what is usual is the median of the windows of the last two hours without the newest
// fifteen minutes, as for OFU. Losses and gradient norms are of single steps and scatter: five in a
// row stand for now (their median), the up to fifty before them for what is usual. A report of no
// progress (zero tokens a second) is a report, but no step. One thread.
#pragma once

#include <deque>
#include <map>
#include <string>
#include <string_view>

#include "base/time.h"
#include "telemetry/application.h"

namespace flopwatch::alerts {

class Reports {
 public:
  static constexpr size_t kNow = 5, kUsual = 50, kFewestUsual = 20;
  static constexpr size_t kMaxJobs = 20'000;  // further ones are not followed

  // NaN = not known.
  struct Of {
    double age_s;       // since the newest report
    double interval_s;  // between reports: the median of the last fifty
    double progress_s;  // since the newest report of a later step than the one before it
    double tokens_per_s, usual_tokens_per_s;
    double mfu, usual_mfu;
    double windows;                        // that what is usual of rates is made of
    double loss, usual_loss, loss_spread;  // spread: the range of the middle half
    double grad_norm, usual_grad_norm;
    double not_finite;  // reports in a row, up to the newest, with a loss or norm that is no number
  };

  // Reports of one job come in the order of their time; one that is older than the newest is left
  // out: an old log that is imported says nothing of now.
  void Add(std::string_view job, const telemetry::ApplicationSample& sample);
  Of Get(std::string_view job, Micros now) const;
  // Jobs without a report for two hours are forgotten.
  void Expire(Micros now);
  // What is of later than now stands in the way of what is now.
  void StepBack(Micros now);
  size_t jobs() const { return jobs_.size(); }

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
    std::deque<Step> steps;
    std::deque<Window> windows;
  };
  static void AddRates(const telemetry::ApplicationSample& sample, Job* job);

  std::map<std::string, Job, std::less<>> jobs_;
};

}  // namespace flopwatch::alerts
