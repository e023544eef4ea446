#include "telemetry/application_series.h"

#include <charconv>

#include "base/text.h"
#include "telemetry/labels.h"

namespace flopwatch::telemetry {
namespace {

constexpr std::string_view kOwnPrefix = "flopwatch_app_";
constexpr std::string_view kTrainPrefixes[] = {"train_", "training_", "trainer_",
                                               "train.", "training.", "trainer."};
constexpr std::string_view kJobLabels[] = {"flopwatch_job", "job_id",       "hpc_job",
                                           "slurm_job_id",  "slurm_jobid",  "training_job",
                                           "slurm.job.id",  "flopwatch.job"};
constexpr size_t kMaxLabels = 64;

// The name of the quantity: what follows what it is led by.
std::string_view WithoutLead(std::string_view name) {
  if (StartsWithIgnoringCase(name, kOwnPrefix)) return name.substr(kOwnPrefix.size());
  for (std::string_view lead : kTrainPrefixes)
    if (StartsWithIgnoringCase(name, lead)) return name.substr(lead.size());
  return name;
}

}  // namespace

bool MayBeApplicationName(std::string_view name) {
  if (StartsWithIgnoringCase(name, kOwnPrefix)) return true;
  for (std::string_view lead : kTrainPrefixes) {
    if (StartsWithIgnoringCase(name, lead))
      return FindApplicationKey(name.substr(lead.size())).has_value();
  }
  const auto key = name.size() <= 64 ? FindApplicationKey(name) : std::nullopt;
  return key.has_value() &&
         (key->field == ApplicationField::kMfu || key->field == ApplicationField::kHfu);
}

bool MayBeNotFiniteName(std::string_view name) {
  if (!MayBeApplicationName(name)) return false;
  const auto key = FindApplicationKey(WithoutLead(name));
  return key.has_value() && MayBeNotFinite(key->field);
}

SeriesMeaning ReadApplicationSeries(std::string_view name, std::string_view labels,
                                    bool job_label_counts, ApplicationSeries* out) {
  if (!MayBeApplicationName(name)) return SeriesMeaning::kOther;
  const bool own = StartsWithIgnoringCase(name, kOwnPrefix);
  *out = {};
  const std::string_view rest = WithoutLead(name);
  if (own && EqualsIgnoringCase(rest, "step")) {
    out->is_step = true;
  } else if (const auto key = FindApplicationKey(rest); key.has_value()) {
    out->key = *key;
  } else {
    return SeriesMeaning::kOther;
  }
  // "tflops" of a metric called train_tflops is of one GPU only where it says so; flopwatch's own
  // names are defined.
  SeriesText series;
  std::string line = "x{";
  line.append(labels).append("} 0");
  if (ParseSeries(line, kMaxLabels, &series) != SeriesError::kNone) return SeriesMeaning::kOther;
  const auto label = [&](std::string_view wanted) -> std::string_view {
    for (const auto& [key, value] : series.labels)
      if (EqualsIgnoringCase(key, wanted)) return value;
    return {};
  };
  std::string job;
  for (std::string_view wanted : kJobLabels)
    if (job.empty()) job = label(wanted);
  if (job.empty()) {
    const std::pair<std::string_view, std::string_view> kPods[] = {
        {"exported_namespace", "exported_pod"},
        {"namespace", "pod"},
        {"k8s.namespace.name", "k8s.pod.name"}};
    for (const auto& [ns, pod] : kPods) {
      if (job.empty() && !label(ns).empty() && !label(pod).empty())
        job = std::string(label(ns)) + "/" + std::string(label(pod));
    }
  }
  if (job.empty() && own && job_label_counts) job = label("job");
  if (job.empty()) return own ? SeriesMeaning::kNoJob : SeriesMeaning::kOther;
  out->claim.job = job;
  for (const auto& [key, value] : series.labels) {
    const std::string normal = NormalKey(key);
    if (normal == "rank" || normal == "global_rank") {
      int rank = -1;
      std::from_chars(value.data(), value.data() + value.size(), rank);
      out->rank = rank;
      continue;
    }
    SetClaimField(normal, value, &out->claim);
  }
  for (std::string_view who :
       {"instance", "pod", "hostname", "host.name", "service.instance.id", "node"}) {
    const std::string_view value = label(who);
    if (!value.empty()) out->speaker.append(value).append(" ");
  }
  return CheckClaim(out->claim).ok() ? SeriesMeaning::kApplication : SeriesMeaning::kBadClaim;
}

}  // namespace flopwatch::telemetry
