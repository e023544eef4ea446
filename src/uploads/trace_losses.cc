#include "uploads/trace_losses.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/json_read.h"

namespace flopwatch::uploads {

StatusOr<TraceLosses> ReadTraceLosses(std::string_view findings) {
  FW_ASSIGN_OR_RETURN(const Json json, Json::Parse(findings, {.what = "the findings of a trace"}));
  if (!json["findings"].is_array() || !json["ledger"].is_array())
    return DataLoss("these are no findings of a trace");
  std::map<int64_t, double> steps;  // by rank, µs
  double all = 0;
  for (const Json& rank : json["ledger"].array()) {
    const double us = rank["step_us"].number_or(0);
    if (!(us > 0) || !std::isfinite(us)) continue;
    steps[rank["rank"].integer_or(-1)] += us;
    all += us;
  }
  TraceLosses out;
  out.ranks = steps.size();
  for (const Json& finding : json["findings"].array()) {
    double us = 0;
    for (const Json& rank : finding["by_rank"].array()) {
      const auto of = steps.find(rank["rank"].integer_or(-1));
      const double percent = rank["claimed_pct"].number_or(0);
      if (of != steps.end() && percent > 0 && percent <= 100) us += of->second * percent / 100;
    }
    if (us > 0) out.parts.push_back({finding["title"].text(), us / all});
  }
  std::ranges::stable_sort(out.parts, std::ranges::greater(), &TraceLosses::Part::share);
  for (const TraceLosses::Part& part : out.parts) out.share += part.share;
  out.share = std::min(out.share, 1.0);
  return out;
}

}  // namespace flopwatch::uploads
