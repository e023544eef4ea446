#include "history/scrapes.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "base/prefetch.h"
#include "base/text.h"
#include "ingest/origin.h"
#include "telemetry/field.h"
#include "telemetry/labels.h"

namespace flopwatch::history {
namespace {

using telemetry::MetricPoint;

constexpr std::string_view kReplicaLabels[] = {"prometheus_replica", "replica", "__replica__"};
// Of the Prometheus, not of the exporter.
constexpr std::string_view kScrapeLabels[] = {"job", "instance", "prometheus"};
// More than the longest step between two scrapes is silence.
constexpr double kSilence = 1.5;
// Moments of a stream that are laid out at a time.
constexpr size_t kLaidOut = 8;
// With their places, and what allocators add: a series beside its points, labels beside their text.
constexpr uint64_t kSeriesBytes = 180 + kLaidOut * sizeof(double), kLabelsBytes = 80;
constexpr uint64_t kOwnerSampleBytes = 64;
// In Stream::values: no sample. A NaN that nobody sends.
constexpr uint64_t kNothing = 0x7ff8'666c'6f70'7761;
constexpr uint64_t kOddMultiplier = 0x9e3779b97f4a7c15;  // 2^64 over the golden ratio

// Of what is not empty.
Micros MedianOf(std::vector<Micros>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::ranges::nth_element(*values, middle);
  return *middle;
}

// In order, and each time once: chunks may overlap. Of one time the first that was given counts.
void SortOnce(std::vector<MetricPoint>* points) {
  if (std::ranges::adjacent_find(*points, std::ranges::greater_equal(), &MetricPoint::ts) ==
      points->end()) {
    return;
  }
  std::ranges::stable_sort(*points, {}, &MetricPoint::ts);
  const auto again = std::ranges::unique(*points, {}, &MetricPoint::ts);
  points->erase(again.begin(), again.end());
}

// So that no other texts make the same key.
void AppendToKey(std::string_view text, std::string* key) {
  const auto size = static_cast<uint32_t>(text.size());
  key->append(reinterpret_cast<const char*>(&size), sizeof(size)).append(text);
}

uint64_t HashOfTimes(const std::vector<MetricPoint>& points) {
  uint64_t hash = points.size();
  for (const MetricPoint& p : points) hash = (hash ^ static_cast<uint64_t>(p.ts)) * kOddMultiplier;
  return hash;
}

}  // namespace

Scrapes::Scrapes(std::vector<std::string> replica_labels)
    : replica_labels_(std::move(replica_labels)) {}

bool Scrapes::IsReplicaLabel(std::string_view label) const {
  return std::ranges::find(kReplicaLabels, label) != std::end(kReplicaLabels) ||
         std::ranges::find(replica_labels_, label) != replica_labels_.end();
}

void Scrapes::Add(const telemetry::MetricSeries& series) {
  if (owners_.Add(series)) {
    samples_ += series.points.size();
    owner_bytes_ += series.points.size() * kOwnerSampleBytes;
    return;
  }
  const bool plain = telemetry::IsPlainName(series.name);
  // All metrics of a GPU have the same labels: what these say is found out once.
  key_.clear();
  AppendToKey(plain ? "" : series.name, &key_);
  for (const auto& [key, value] : series.labels) {
    AppendToKey(key, &key_);
    AppendToKey(value, &key_);
  }
  const auto [at, is_new] = known_.try_emplace(key_);
  if (is_new) {
    bytes_ += key_.size() + kLabelsBytes;
    at->second = Read(series, plain);
  }
  const Labels& labels = at->second;
  if (labels.exporter == nullptr) {
    ++unnamed_;
    return;
  }
  Series* const s = Find(labels, plain ? series.name : std::string_view());
  if (s->unit_in_text)
    for (const MetricPoint& p : series.points) labels.exporter->unit.See(p.value);
  s->points.insert(s->points.end(), series.points.begin(), series.points.end());
  samples_ += series.points.size();
  bytes_ += series.points.size() * sizeof(MetricPoint);
}

Scrapes::Labels Scrapes::Read(const telemetry::MetricSeries& series, bool plain) {
  std::string_view instance = series.Label("instance");
  for (const std::string_view key : {"Hostname", "hostname", "node"})
    if (instance.empty()) instance = series.Label(key);
  const bool named = !instance.empty() && instance.find(' ') == std::string_view::npos &&
                     FaultOfName(instance, telemetry::kMaxNameBytes) == NameFault::kNone;
  if (!named) return {};
  Exporter& exporter = exporters_[{std::string(series.Label("job")), std::string(instance)}];
  if (exporter.name.empty()) {
    exporter.name = instance;
    exporter.node = ingest::HostOfInstance(instance);
  }
  telemetry::SeriesLabels own;
  own.name = series.name;
  std::string replica;
  for (const auto& label : series.labels) {
    if (IsReplicaLabel(label.first)) {
      replica += label.second;
      replica += '\n';
    } else if (std::ranges::find(kScrapeLabels, label.first) == std::end(kScrapeLabels)) {
      own.labels.push_back(label);
    }
  }
  Stream& stream = exporter.streams[replica];
  std::string text;
  telemetry::AppendSeries(own, &text);
  text += ' ';
  if (plain) text.erase(0, own.name.size());  // what is no plain word stands in the braces
  const auto [labels, is_new] = stream.labels.insert(std::move(text));
  if (is_new) bytes_ += labels->size() + kLabelsBytes;
  return {.exporter = &exporter, .stream = &stream, .text = *labels};
}

Scrapes::Series* Scrapes::Find(const Labels& labels, std::string_view plain_name) {
  Stream* const stream = labels.stream;
  const auto [name, is_new_name] = names_.emplace(plain_name);
  if (is_new_name) bytes_ += name->size() + kLabelsBytes;
  const auto [at, fresh] = stream->place.try_emplace({name->data(), labels.text.data()},
                                                     static_cast<uint32_t>(stream->series.size()));
  if (!fresh) return &stream->series[at->second];
  bytes_ += kSeriesBytes;
  return &stream->series.emplace_back(
      Series{.name = *name,
             .labels = labels.text,
             .points = {},
             .memo = {},
             .unit_in_text = telemetry::IsPercentIfInteger(plain_name)});
}

std::vector<Scrapes::Moment> Scrapes::MomentsOf(Stream* stream) {
  // Nearly all series of an exporter have the times of its scrapes: those that have the same ones
  // are in the same moments, and are looked at once.
  std::vector<const std::vector<MetricPoint>*> groups;
  absl::flat_hash_map<uint64_t, size_t> by_times;
  std::vector<std::pair<Micros, size_t>> times;  // and of which group
  std::vector<Micros> steps;
  for (Series& series : stream->series) {
    std::vector<MetricPoint>& points = series.points;
    SortOnce(&points);
    const auto [at, fresh] = by_times.try_emplace(HashOfTimes(points), groups.size());
    if (!fresh &&
        std::ranges::equal(points, *groups[at->second], {}, &MetricPoint::ts, &MetricPoint::ts)) {
      continue;
    }
    for (const MetricPoint& p : points) times.emplace_back(p.ts, groups.size());
    for (size_t i = 1; i < points.size(); ++i) steps.push_back(points[i].ts - points[i - 1].ts);
    groups.push_back(&points);
  }
  std::ranges::sort(times);
  // An exporter that is asked every second has two scrapes in a second.
  const Micros join = steps.empty() ? kJoin : std::min(kJoin, MedianOf(&steps) / 2);
  std::vector<Moment> moments;
  std::vector<size_t> last(groups.size(), 0);  // the moment it was in last, counted from 1
  for (const auto& [ts, group] : times) {
    if (moments.empty() || ts > moments.back().from + join || last[group] == moments.size())
      moments.push_back({ts, ts});
    moments.back().to = ts;
    last[group] = moments.size();
  }
  return moments;
}

void Scrapes::FindGpus(const Exporter& exporter, Stream* stream) {
  using telemetry::LabelFacts;
  struct Found {
    std::vector<size_t> series;
    GpuPlace place;
    bool owned = false;
  };
  std::map<std::tuple<std::string, std::string, int32_t>, Found> found;
  std::map<std::string, int32_t> on_node;  // whole GPUs; below 0: there are instances
  telemetry::SeriesText text;
  std::string line;
  for (size_t k = 0; k < stream->series.size(); ++k) {
    line = stream->series[k].name;
    line += stream->series[k].labels;
    line += '0';
    if (telemetry::ParseSeries(line, telemetry::kMaxWireLabels, &text) !=
        telemetry::SeriesError::kNone)
      continue;
    const LabelFacts facts =
        telemetry::ReadLabels(text, telemetry::DialectOf(text.name), exporter.node);
    if (facts.entity == LabelFacts::Entity::kGpuInstance) on_node[facts.labels.node] = -1;
    if (facts.entity != LabelFacts::Entity::kGpu || facts.discriminated || facts.error_code)
      continue;
    Found& gpu = found[{facts.key.uuid, facts.labels.node, facts.labels.index}];
    gpu.owned |= !facts.owner.empty();
    gpu.series.push_back(k);
    gpu.place = {.uuid = facts.key.uuid,
                 .node = facts.labels.node,
                 .host = exporter.node,
                 .index = facts.labels.index};
  }
  for (const auto& [key, gpu] : found)
    if (int32_t& count = on_node[gpu.place.node]; count >= 0) ++count;
  for (auto& [key, gpu] : found) {
    if (const int32_t whole = on_node[gpu.place.node]; whole > 0) owners_.SeeNode(gpu.place, whole);
    if (gpu.owned) continue;
    gpu.place.gpus_of_node = std::max(0, on_node[gpu.place.node]);
    for (const size_t k : gpu.series)
      stream->series[k].gpu = static_cast<int32_t>(stream->gpus.size());
    stream->gpus.push_back({.place = std::move(gpu.place), .owned = {}});
  }
}

void Scrapes::WriteOwners(Gpu* gpu, Micros ts) {
  const Series& series = *std::exchange(gpu->series, nullptr);
  size_t n = 0;
  for (const telemetry::OwnerLabels* owner : owners_.At(gpu->place, ts)) {
    telemetry::SeriesLabels labels;
    labels.name = "x";
    for (const auto& [key, value] :
         {std::pair<std::string_view, const std::string&>{"hpc_job", owner->hpc_job},
          // As where the scraper's own stand in their place: the exporter's pod may be there.
          {"exported_namespace", owner->ns},
          {"exported_pod", owner->pod},
          {"hpc_user", owner->user}})
      labels.Add(key, value);
    std::string braces;
    telemetry::AppendSeries(labels, &braces);
    braces.erase(0, labels.name.size());  // {a="b"}
    const size_t close = series.labels.rfind('}');
    std::string text;
    if (close == std::string_view::npos) {
      text = braces;
    } else {
      text = series.labels.substr(0, close);
      text += ',';
      text.append(braces, 1);
    }
    text += ' ';
    if (n == gpu->owned.size()) gpu->owned.push_back(std::make_unique<Owned>());
    Owned& owned = *gpu->owned[n++];
    if (owned.labels != text || owned.name.data() != series.name.data())
      owned = {.name = series.name, .labels = std::move(text), .memo = {}};
    written_.push_back(
        {.name = series.name, .labels = owned.labels, .value = gpu->value, .memo = &owned.memo});
  }
}

// Exporters take turns, and each time all of one's is cold: moment by moment it would be a line of
// memory for each sample.
void Scrapes::LayOut(size_t first, Stream* stream) {
  const size_t series = stream->series.size();
  const size_t end = std::min(first + kLaidOut, stream->spoken.size());
  stream->values.assign((end - first) * series, std::bit_cast<double>(kNothing));
  constexpr size_t kAhead = 8;
  for (size_t k = 0; k < series; ++k) {
    if (k + kAhead < series) {
      const Series& ahead = stream->series[k + kAhead];
      PrefetchToRead(ahead.points.data() + ahead.next, kLaidOut * sizeof(MetricPoint));
    }
    Series& s = stream->series[k];
    const MetricPoint *p = s.points.data() + s.next, *const last =
                                                         s.points.data() + s.points.size();
    double* out = stream->values.data() + k;
    for (size_t m = first; m < end; ++m, out += series) {
      const Moment& moment = stream->spoken[m];
      // Moments that another replica speaks for are passed over.
      while (p != last && p->ts < moment.from) ++p;
      if (p == last) break;
      if (p->ts <= moment.to) *out = (p++)->value;
    }
    s.next = static_cast<uint32_t>(p - s.points.data());
  }
}

void Scrapes::Write(const Exporter& exporter, size_t moment, Stream* stream,
                    absl::FunctionRef<void(const Scrape&)> f) {
  written_.clear();
  const Micros ts = stream->spoken[moment].to;
  if (moment % kLaidOut == 0) LayOut(moment, stream);
  const double* const values = stream->values.data() + moment % kLaidOut * stream->series.size();
  for (size_t k = 0; k < stream->series.size(); ++k) {
    const double value = values[k];
    if (std::bit_cast<uint64_t>(value) == kNothing) continue;
    Series& s = stream->series[k];
    written_.push_back({.name = s.name,
                        .labels = s.labels,
                        .value = value,
                        .with_point = s.unit_in_text && exporter.unit.DecimalsOf(value),
                        .memo = &s.memo});
    if (s.gpu >= 0 && !s.unit_in_text) {
      stream->gpus[s.gpu].series = &s;
      stream->gpus[s.gpu].value = value;
    }
  }
  for (Gpu& gpu : stream->gpus)
    if (gpu.series != nullptr) WriteOwners(&gpu, ts);
  f({.name = exporter.name, .node = exporter.node, .ts = ts, .samples = written_});
}

void Scrapes::FindSpoken(Exporter* exporter) {
  std::vector<std::pair<Stream*, std::vector<Moment>>> replicas;
  const std::string speaker = exporter->speaker;
  size_t most = 0;
  for (auto& [replica, stream] : exporter->streams) {
    replicas.emplace_back(&stream, MomentsOf(&stream));
    // Who spoke in the window before goes on unless another has a tenth more: each change of the
    // speaker is a sample out of step.
    const size_t weight = replicas.back().second.size() * (replica == speaker ? 11 : 10);
    if (weight <= most) continue;
    most = weight;
    exporter->speaker = replica;
    std::swap(replicas.front(), replicas.back());
  }
  const std::vector<Moment>& first = replicas.front().second;
  std::vector<Micros> steps;
  for (size_t k = 1; k < first.size(); ++k) steps.push_back(first[k].to - first[k - 1].to);
  if (!steps.empty()) exporter->usual = MedianOf(&steps);
  const Micros usual = exporter->usual;
  const auto silence = static_cast<Micros>(kSilence * static_cast<double>(usual));
  Micros spoke = first.empty() ? 0 : first.back().to;
  for (size_t r = 1; r < replicas.size(); ++r) {
    for (const Moment& m : replicas[r].second) {
      const auto next = std::ranges::lower_bound(first, m.to, {}, &Moment::to);
      // The window before this one ended with somebody who spoke, and the next has not come yet:
      // who is not silent for long enough by now may still speak.
      const Micros before = next == first.begin() ? exporter->spoke : std::prev(next)->to;
      const Micros after = next == first.end() ? m.to + usual / 2 + 1 : next->to;
      if (after - before > silence && m.to - before > usual / 2 && after - m.to > usual / 2)
        replicas[r].first->spoken.push_back(m);
    }
    if (!replicas[r].first->spoken.empty())
      spoke = std::max(spoke, replicas[r].first->spoken.back().to);
  }
  if (spoke != 0) exporter->spoke = spoke;
  replicas.front().first->spoken = std::move(replicas.front().second);
}

void Scrapes::Clear() {
  for (auto& [key, exporter] : exporters_) exporter.streams.clear();
  known_.clear();
  names_.clear();
  samples_ = bytes_ = unnamed_ = 0;
  if (again_) return;
  owners_.Clear();
  owner_bytes_ = 0;
}

void Scrapes::Drain(absl::FunctionRef<void(const Scrape&)> f, bool more) {
  if (!again_) owners_.Prepare();
  if (!owners_.empty()) {
    for (auto& [key, exporter] : exporters_)
      for (auto& [replica, stream] : exporter.streams) FindGpus(exporter, &stream);
  }
  // As they came: exporters that speak of the same GPUs take their turns as they did.
  struct Next {
    Micros ts;
    size_t moment;
    Exporter* exporter;
    Stream* stream;
  };
  std::vector<Next> all;
  for (auto& [key, exporter] : exporters_) {
    if (exporter.streams.empty()) continue;
    FindSpoken(&exporter);
    for (auto& [replica, stream] : exporter.streams)
      for (size_t m = 0; m < stream.spoken.size(); ++m)
        all.push_back({stream.spoken[m].to, m, &exporter, &stream});
  }
  std::ranges::stable_sort(all, {}, &Next::ts);
  for (const Next& next : all) Write(*next.exporter, next.moment, next.stream, f);
  again_ = more;
  if (!more) {
    pods_ = owners_.TakePods();
    owners_.Settle();
  }
  Clear();
}

}  // namespace flopwatch::history
