// A fleet whose series are more than can be held at once is read in parts: exporters that are read
// together, window after window. With shorter windows instead, a server would unpack the same
// chunks again for each, and labels of 10,000 GPUs, which come with every answer, would be most of
// what is read.
//
// What speaks of the same GPU or node is in the same part: exporters on one host, and an exporter
// that came back under another address. One thread.
#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "telemetry/metric_series.h"
#include "telemetry/remote_read.h"

namespace flopwatch::history {

class Parts {
 public:
  // Exporters that are not told apart.
  struct Group {
    std::vector<std::string> instances;  // sorted
    double series = 0;                   // of what was seen
  };
  // Notes who speaks of what, and how much.
  void See(const telemetry::MetricSeries& series);
  // Somebody of whom nothing more is known.
  void SeeInstance(std::string_view instance);

  // All that was seen, in order of names.
  std::vector<Group> Groups() const;
  // In `n` parts of about as many series each; none is empty.
  static std::vector<std::vector<Group>> Cut(std::vector<Group> groups, size_t n);
  // Matchers of which one holds for each series of these, and none for others'.
  static std::vector<telemetry::ReadMatcher> OneOf(const std::vector<Group>& groups);

 private:
  size_t NumberOf(const std::string& name);
  size_t RootOf(size_t k) const;
  void Join(size_t a, size_t b);

  // "i" and an instance, "h" and a host, "n" and a node, "u" and a GPU.
  std::map<std::string, size_t> number_of_;
  mutable std::vector<size_t> parent_;
  std::vector<double> series_;  // by number
};

}  // namespace flopwatch::history
