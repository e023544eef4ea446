#include "alerts/answers.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

namespace flopwatch::alerts {
namespace {

constexpr size_t kOfBody = 2'000;  // a body may have so many series (DecodeLimits)
constexpr std::string_view kBefore = "node=\"", kAfter = "\"";

// The host of the series' labels.
std::optional<std::string> HostOf(std::string_view labels) {
  const size_t at = labels.find(kBefore);
  if (at == std::string_view::npos) return std::nullopt;
  labels.remove_prefix(at + kBefore.size());
  const size_t end = labels.find(kAfter);
  if (end == std::string_view::npos) return std::nullopt;
  return std::string(labels.substr(0, end));
}

}  // namespace

Answers AnswersByNode(absl::Span<const std::pair<std::string, Micros>> hosts) {
  Answers whole, out;
  for (const auto& [host, at] : hosts) {
    Micros& last = whole[host];
    last = std::max(last, at);
  }
  absl::flat_hash_map<std::string, int> called_so;
  const auto first_part = [](const std::string& host) { return host.substr(0, host.find('.')); };
  for (const auto& [host, at] : whole) ++called_so[first_part(host)];
  for (const auto& [host, at] : whole)
    if (called_so[first_part(host)] == 1) out[first_part(host)] = at;
  for (const auto& [host, at] : whole) out[host] = at;
  return out;
}

void KeepAnswers(const HostAnswers& hosts, Micros now, ingest::Pipeline* pipeline) {
  std::map<std::string_view, Micros> last;
  for (const auto& [host, at] : hosts)
    if (host.find_first_of("\"\\\n") == std::string::npos)  // no host is called so
      last[host] = std::max(last[host], at);
  std::string text;
  size_t in_text = 0, bodies = 0;
  const auto give = [&] {
    const std::string name = bodies++ == 0 ? "flopwatch" : fmt::format("flopwatch/{}", bodies);
    // As what is scraped: who pushes is listed as a node that has to go on.
    pipeline->Ingest({.name = name, .kind = ingest::SourceKind::kExporter}, text, now, 0);
    text.clear();
    in_text = 0;
  };
  for (const auto& [host, at] : last) {
    text += fmt::format("{}{{{}{}{}}} {:.3f}\n", kAnswerSeries, kBefore, host, kAfter,
                        ToSeconds(now - at));
    if (++in_text == kOfBody) give();
  }
  if (in_text > 0) give();
}

KeptAnswers::KeptAnswers(const query::Query& query, Micros from)
    : pages_(
          [&query](store::Window window, uint64_t limit) {
            return query.store().Metrics(window, kAnswerSeries, limit);
          },
          from) {}

Status KeptAnswers::GoTo(Micros ts) {
  now_ = ts;
  return pages_.GiveUntil(ts, [&](const store::MetricSample& sample) {
    if (sample.ts != kept_at_) hosts_.clear();
    kept_at_ = sample.ts;
    if (std::optional<std::string> host = HostOf(sample.labels))
      hosts_.emplace_back(*std::move(host),
                          sample.ts - static_cast<Micros>(sample.value * kMicrosPerSecond));
  });
}

HostAnswers KeptAnswers::Get() const {
  return kept_at_ != 0 && now_ - kept_at_ <= kGood ? hosts_ : HostAnswers();
}

}  // namespace flopwatch::alerts
