#include "store/store.h"

#include <algorithm>
#include <cmath>

namespace flopwatch::store {

Status CheckWindow(Window w) {
  if (w.from < w.to) return absl::OkStatus();
  return InvalidArgument("the window is empty: from {} to {}", FormatTime(w.from),
                         FormatTime(w.to));
}

std::optional<double> ApplicationSums::Mean(telemetry::ApplicationField f) const {
  const Field& field = (*this)[f];
  if (field.span_s <= 0) return std::nullopt;
  return field.weighted_s / field.span_s;
}

std::optional<double> ApplicationSums::Last(telemetry::ApplicationField f) const {
  const Field& field = (*this)[f];
  if (field.count == 0) return std::nullopt;
  return field.last;
}

void ApplicationSums::Add(const telemetry::ApplicationSample& sample) {
  ApplicationSums one;
  const double s = sample.span_ms / 1e3;
  one.samples = 1;
  one.span_s = s;
  one.first_ts = sample.ts - sample.span_ms * kMicrosPerMilli;
  one.last_ts = sample.ts;
  one.first_step = one.last_step = sample.step;
  for (size_t f = 0; f < telemetry::kApplicationFields; ++f) {
    if (!sample.values[f].has_value() || !std::isfinite(*sample.values[f])) continue;
    one.fields[f] = {1, *sample.values[f] * s, s, *sample.values[f], sample.ts};
  }
  *this += one;
}

ApplicationSums& ApplicationSums::operator+=(const ApplicationSums& o) {
  if (o.samples == 0) return *this;
  first_ts = samples == 0 ? o.first_ts : std::min(first_ts, o.first_ts);
  last_ts = samples == 0 ? o.last_ts : std::max(last_ts, o.last_ts);
  samples += o.samples;
  span_s += o.span_s;
  if (o.first_step.has_value())
    first_step = std::min(first_step.value_or(*o.first_step), *o.first_step);
  if (o.last_step.has_value()) last_step = std::max(last_step.value_or(*o.last_step), *o.last_step);
  for (size_t f = 0; f < fields.size(); ++f) {
    Field& to = fields[f];
    const Field& from = o.fields[f];
    if (from.count == 0) continue;
    if (to.count == 0 || from.last_ts >= to.last_ts) {
      to.last = from.last;
      to.last_ts = from.last_ts;
    }
    to.count += from.count;
    to.weighted_s += from.weighted_s;
    to.span_s += from.span_s;
  }
  return *this;
}

}  // namespace flopwatch::store
