#include "ingest/narrow.h"

#include <fmt/format.h>

#include <optional>

#include "absl/hash/hash.h"

namespace flopwatch::ingest {
namespace {

using telemetry::ApplicationSource;
using telemetry::NarrowSample;

ApplicationSource ReportsAs(SourceKind kind) {
  if (kind == SourceKind::kRemoteWrite) return ApplicationSource::kRemoteWrite;
  return kind == SourceKind::kOtlp ? ApplicationSource::kOtlp : ApplicationSource::kPrometheus;
}

}  // namespace

NarrowSeries::NarrowSeries(Registry* registry, ApplicationIntake* application, const Origin& origin,
                           size_t limit)
    : registry_(registry),
      application_(application),
      source_(origin.Text()),
      reports_as_(ReportsAs(origin.kind)),
      limit_(limit) {}

uint64_t NarrowSeries::Deliver(absl::Span<const NarrowSample> samples, Micros ts,
                               Writer::Session* session) {
  uint64_t refused = 0;
  for (const NarrowSample& sample : samples) {
    const uint64_t hash =
        absl::HashOf(absl::string_view(sample.name.data(), sample.name.size()),
                     absl::string_view(sample.labels.data(), sample.labels.size()));
    auto it = series_.find(hash);
    if (it == series_.end()) {
      if (series_.size() >= limit_) {
        ++refused;
        continue;
      }
      it = series_.emplace(hash, Learn(sample)).first;
    }
    switch (it->second.use) {
      case Use::kRefused:
        ++refused;
        break;
      case Use::kStored:
        session->AddMetric(
            {.ts = sample.timestamp.value_or(ts), .series = it->second.id, .value = sample.value});
        break;
      case Use::kReported:
        Collect(members_[static_cast<size_t>(it->second.id)], sample, ts);
        break;
    }
  }
  if (!collected_.empty()) Offer();
  return refused;
}

NarrowSeries::Series NarrowSeries::Learn(const NarrowSample& sample) {
  telemetry::ApplicationSeries who;
  const bool direct = reports_as_ == ApplicationSource::kPrometheus;
  switch (telemetry::ReadApplicationSeries(sample.name, sample.labels, direct, &who)) {
    case telemetry::SeriesMeaning::kOther:
      break;
    case telemetry::SeriesMeaning::kNoJob:
      application_->Refuse(reports_as_, ApplicationRefusal::kNoJob);
      break;
    case telemetry::SeriesMeaning::kBadClaim:
      application_->Refuse(reports_as_, ApplicationRefusal::kInvalid);
      break;
    case telemetry::SeriesMeaning::kApplication: {
      const std::string group =
          fmt::format("{}\n{}\n{}", who.claim.Content(), who.rank, who.speaker);
      const auto [it, added] = group_of_.emplace(group, groups_.size());
      if (added) groups_.push_back(who);
      members_.push_back({who.key, who.is_step, it->second});
      return {Use::kReported, static_cast<int32_t>(members_.size()) - 1};
    }
  }
  const auto id = registry_->Series(source_, sample.name, sample.labels);
  return id.ok() ? Series{Use::kStored, *id} : Series{};
}

void NarrowSeries::Collect(const Member& member, const NarrowSample& sample, Micros ts) {
  const telemetry::ApplicationClaim& claim = groups_[member.group].claim;
  telemetry::ApplicationSample& said = collected_[{member.group, sample.timestamp.value_or(ts)}];
  if (member.is_step) {
    if (sample.value >= 0 && sample.value <= static_cast<double>(telemetry::kMaxApplicationStep))
      said.step = static_cast<int64_t>(sample.value);
    return;
  }
  std::optional<double> value =
      telemetry::InUnit(member.key, sample.value, telemetry::RatioUnit::kByName);
  if (!value.has_value()) {
    application_->Refuse(reports_as_, ApplicationRefusal::kUnitUnclear);
    return;
  }
  if (member.key.per_gpu) {
    if (!claim.gpus.has_value()) {
      application_->Refuse(reports_as_, ApplicationRefusal::kNoGpuCount);
      return;
    }
    *value *= static_cast<double>(*claim.gpus);
  }
  said[member.key.field] = *value;
}

void NarrowSeries::Offer() {
  for (auto& [key, sample] : collected_) {
    if (sample.empty()) continue;  // a step alone
    sample.ts = key.second;
    application_->Offer(groups_[key.first], reports_as_, sample);
  }
  collected_.clear();
}

}  // namespace flopwatch::ingest
