#include "ingest/narrow.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <optional>
#include <utility>

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

NarrowSeries::~NarrowSeries() { ForgetSilent(std::numeric_limits<Micros>::max()); }

void NarrowSeries::ForgetSilent(Micros now) {
  std::vector<Member> members;
  absl::erase_if(series_, [&](auto& entry) {
    Series& series = entry.second;
    if (now - series.seen > kForgotten) {
      if (series.use == Use::kStored) registry_->ReleaseSeries(series.id);
      return true;
    }
    if (series.use == Use::kReported) {
      members.push_back(members_[static_cast<size_t>(series.id)]);
      series.id = static_cast<int32_t>(members.size()) - 1;
    }
    return false;
  });
  if (members.size() == members_.size()) return;
  // Groups that still have a member, under new numbers.
  std::vector<std::optional<size_t>> number(groups_.size());
  std::vector<telemetry::ApplicationSeries> groups;
  for (Member& member : members) {
    std::optional<size_t>& to = number[member.group];
    if (!to.has_value()) {
      to = groups.size();
      groups.push_back(std::move(groups_[member.group]));
    }
    member.group = *to;
  }
  absl::erase_if(group_of_, [&](auto& entry) {
    if (!number[entry.second].has_value()) return true;
    entry.second = *number[entry.second];
    return false;
  });
  members_ = std::move(members);
  groups_ = std::move(groups);
}

NarrowSeries::Refused NarrowSeries::Deliver(absl::Span<const NarrowSample> samples, Micros ts,
                                            Micros now,
                                            absl::FunctionRef<bool(std::optional<Micros>)> credible,
                                            Newcomers* newcomers, Writer::Session* session) {
  if (now >= next_sweep_) {
    if (next_sweep_ != 0) ForgetSilent(now);
    next_sweep_ = now + kForgotten / 10;
  }
  Refused refused;
  for (const NarrowSample& sample : samples) {
    const uint64_t hash =
        absl::HashOf(absl::string_view(sample.name.data(), sample.name.size()),
                     absl::string_view(sample.labels.data(), sample.labels.size()));
    auto it = series_.find(hash);
    if (it == series_.end()) {
      if (series_.size() >= limit_) {
        ++refused.limits;
        continue;
      }
      const std::optional<Series> learned = Learn(sample, newcomers);
      if (!learned.has_value()) {
        ++refused.limits;
        continue;
      }
      it = series_.emplace(hash, *learned).first;
    }
    it->second.seen = now;
    switch (it->second.use) {
      case Use::kRefused:
        ++refused.limits;
        break;
      case Use::kStored:
        if (!std::isfinite(sample.value)) {
          ++refused.not_finite;
          break;
        }
        // A row of a time to come, or of long ago, would keep its file, or all names, from going.
        if (credible(sample.timestamp))
          Store(sample, sample.timestamp.value_or(ts), &it->second, session);
        break;
      case Use::kReported:
        Collect(members_[static_cast<size_t>(it->second.id)], sample, ts);
        break;
    }
  }
  if (!collected_.empty()) Offer();
  return refused;
}

void NarrowSeries::Store(const NarrowSample& sample, Micros ts, Series* series,
                         Writer::Session* session) {
  if (ts >= series->seen_until) {
    registry_->SeeSeries(series->id, source_, sample.name, sample.labels, ts);
    series->seen_until = EndOfDay(ts);
  }
  session->AddMetric({.ts = ts, .series = series->id, .value = sample.value});
}

std::optional<NarrowSeries::Series> NarrowSeries::Learn(const NarrowSample& sample,
                                                        Newcomers* newcomers) {
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
      return Series{Use::kReported, static_cast<int32_t>(members_.size()) - 1};
    }
  }
  const size_t text = sample.name.size() + sample.labels.size();
  if (text > kMaxSeriesText) return Series{};
  if (!registry_->KnowsSeries(source_, sample.name, sample.labels)) {
    const size_t room = registry_->RoomForSeries();
    if (room == 0) return std::nullopt;  // others may leave some
    if (!newcomers->May(NewThing::kSeries, 1 + static_cast<double>(text / kTextPerUnit), room))
      return std::nullopt;
  }
  const auto id = registry_->Series(source_, sample.name, sample.labels);
  if (!id.ok()) return std::nullopt;  // as above
  return Series{Use::kStored, *id};
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
