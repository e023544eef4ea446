// How rules put a finding together: facts with their text, top lists, the place to look, one
// finding out of many ranks'.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trace/findings/finding.h"
#include "trace/findings/measures.h"
#include "trace/name_predicate.h"

namespace flopwatch::trace {

std::string DurationText(Nanos t);      // "4.1 µs", "12.3 ms", "1.25 s"
std::string PercentText(double share);  // "12.3 %"
std::string BytesText(double bytes);    // "3.2 MiB"
std::string NumberText(double n);       // "12", "3.4"

RankCheck Nothing();
RankCheck CannotCheck(std::string reason);
// A finding that explains `time`, or a share of each moment of it.
RankCheck Found(Finding finding, IntervalSet time = {}, double share = 1);

// A finding about one rank, with its place not set yet.
Finding FindingOf(const RankMeasures& m, std::string title);
void AddCount(Finding* f, std::string name, double count, std::string text);
void AddShare(Finding* f, std::string name, double share, std::string text);
void AddTime(Finding* f, std::string name, Nanos time,
             std::string text);  // in µs; the name ends with _us
void AddBytes(Finding* f, std::string name, double bytes, std::string text);
void AddText(Finding* f, std::string name, std::string value, std::string text);
// Sets where to look, with the step that holds its begin.
void PointTo(Finding* f, const RankMeasures& m, Interval window);
// The gain is at most `time` of the step time; never above the whole.
void SetGain(Finding* f, const RankMeasures& m, Nanos time, std::string basis);

// Says for a finding about a slow host how much of that may be the profiler's own work, where it is
// a tenth of the step or more.
void SayProfilerCost(Finding* f, const RankMeasures& m);

// Counts and times by name; gives the largest.
class TopNames {
 public:
  void Add(NameId name, Nanos time) {
    Entry& e = entries_[name];
    ++e.count;
    e.time += time;
    if (time > e.longest) e.longest = time;
  }
  struct Entry {
    int64_t count = 0;
    Nanos time = 0, longest = 0;
  };
  const absl::flat_hash_map<NameId, Entry>& entries() const { return entries_; }
  // The largest by time, then by name: "ampere_sgemm_128x64_nn (312 times, 4.1 ms)".
  std::vector<std::string> Texts(const StringPool& names, size_t n = 3) const;
  // The name with the largest count (time among equal ones); kNoName when empty.
  NameId Most() const;

 private:
  absl::flat_hash_map<NameId, Entry> entries_;
};

// The longest of some intervals; {0, 0} of none.
Interval Longest(const IntervalSet& set);

}  // namespace flopwatch::trace
