#include "telemetry/labels.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>
#include <unordered_map>

#include "absl/strings/ascii.h"
#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::telemetry {
namespace {

constexpr size_t kMaxDescriptionBytes = 256;  // of a label that only describes; longer ones are cut

// A look-up per byte: names are read again whenever groups come in another order.
constexpr std::array<bool, 256> kNameChars = [] {
  std::array<bool, 256> table{};
  for (int c = 0; c < 256; ++c) {
    table[c] = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
               c == '_' || c == ':';
  }
  return table;
}();

size_t SkipBlanks(std::string_view text, size_t at) {
  while (at < text.size() && IsBlank(text[at])) ++at;
  return at;
}

// True when the quote at `at` ends its value: a comma, a brace or the end of the line follows.
bool ClosesValue(std::string_view text, size_t at) {
  at = SkipBlanks(text, at + 1);
  return at >= text.size() || text[at] == ',' || text[at] == '}';
}

std::string Unescape(std::string_view raw) {
  std::string out;
  out.reserve(raw.size());
  for (size_t i = 0; i < raw.size(); ++i) {
    if (raw[i] != '\\' || i + 1 == raw.size()) {
      out += raw[i];
      continue;
    }
    const char next = raw[++i];
    if (next == 'n') {
      out += '\n';
    } else if (next == '\\' || next == '"') {
      out += next;
    } else {
      out += '\\';
      out += next;
    }
  }
  return out;
}

// What a label is about. Of several labels of a kind the first one that says anything counts.
enum Label : uint8_t {
  kUuid,
  kSerial,
  kIndex,
  kInstanceId,
  kInstanceProfile,
  kPartition,
  kPartitionType,
  kDevice,
  kModel,
  kModelSeries,
  kPciBusId,
  kDriver,
  kNvlinkDomain,
  kFabricCluster,
  kFabricClique,
  kHost,
  kHostWeak,
  kHpcJob,
  kUser,
  kPod,
  kNamespace,
  kContainer,
  kClockType,
  kExportedPod,
  kExportedNamespace,
  kExportedContainer,
  kErrorCode,
  kXidCode,
  kNvLink,
  kNvSwitch,
  kCpuNumber,
  kCpuCore,
  kDiscriminator,  // splits one entity's reading into several series
  kDescriptive,    // known, and of no use here
  kLabelCount,
};

struct LabelNames {
  Label label;
  std::string_view names;  // lower case, separated by blanks
};
constexpr LabelNames kLabelNames[] = {
    {kUuid, "uuid gpu_uuid"},
    {kSerial, "serial_number"},
    {kIndex, "gpu gpu_id gpu_index"},
    {kInstanceId, "gpu_i_id gpu_instance_id"},
    {kInstanceProfile, "gpu_i_profile mig_profile"},
    {kPartition, "gpu_partition_id"},
    {kPartitionType, "gpu_compute_partition_type"},
    {kDevice, "device"},
    {kModel, "modelname model_name card_model"},
    {kModelSeries, "card_series"},
    {kPciBusId, "pci_bus_id pcie_bus_id"},
    {kDriver, "dcgm_fi_driver_version dcgm_fi_system_driver_version driver_version"},
    // GPU feature discovery's label of a node, as Prometheus and kube-state-metrics write it; then
    // DCGM's fields of the type "label".
    {kNvlinkDomain, "nvlink_domain nvidia_com_gpu_clique label_nvidia_com_gpu_clique"},
    {kFabricCluster, "dcgm_fi_dev_fabric_cluster_uuid"},
    {kFabricClique, "dcgm_fi_dev_fabric_clique_id"},
    {kHost, "hostname exported_hostname"},
    {kHostWeak, "node node_name nodename kubernetes_node"},
    {kHpcJob, "hpc_job job_id jobid slurm_job_id"},
    {kUser, "user username hpc_user job_user"},
    {kPod, "pod pod_name podname"},
    {kNamespace, "namespace pod_namespace"},
    {kContainer, "container container_name"},
    {kClockType, "clock_type"},
    {kExportedPod, "exported_pod"},
    {kExportedNamespace, "exported_namespace"},
    {kExportedContainer, "exported_container"},
    {kErrorCode, "err_code err_msg"},
    {kXidCode, "xid"},
    {kNvLink, "nvlink"},
    {kNvSwitch, "nvswitch"},
    {kCpuNumber, "cpu"},
    {kCpuCore, "cpucore cpu_core"},
    // These are links of other exporters, and network cards.
    {kDiscriminator, "link link_index switch lane port peer_gpu connectx"},
    // These are windows, events, processes, histograms, parts of an instance.
    {kDiscriminator,
     "window_size_in_ms clock_event health_watch health_error_code severity afid_index pid "
     "process_name compute_instance_id mig_uuid le quantile"},
    {kDescriptive,
     "pod_uid vgpu card_vendor vbios_version gpu_memory_partition_type clock_index cluster_name "
     "cluster job_partition usergroup_id workload_id job instance service endpoint exported_job "
     "exported_instance region zone"},
};

const std::unordered_map<std::string_view, Label>& KnownLabels() {
  static const auto* map = [] {
    auto* by_name = new std::unordered_map<std::string_view, Label>;
    for (const LabelNames& row : kLabelNames) {
      for (std::string_view rest = row.names; !rest.empty();) {
        const std::string_view name = rest.substr(0, rest.find(' '));
        by_name->emplace(name, row.label);
        rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      }
    }
    return by_name;
  }();
  return *map;
}

std::optional<Label> FindLabel(std::string_view name) {
  char lower[48];
  if (name.size() > sizeof(lower)) return std::nullopt;
  for (size_t i = 0; i < name.size(); ++i)
    lower[i] = absl::ascii_tolower(static_cast<unsigned char>(name[i]));
  const std::string_view key(lower, name.size());
  if (const auto it = KnownLabels().find(key); it != KnownLabels().end()) return it->second;
  // CSV fields of type "label" and dynamic resource allocation: DCGM_FI_PROCESS_NAME,
  // dra_driver_name, ...
  if (key.starts_with("dcgm_fi_") || key.starts_with("dra_")) return kDescriptive;
  return std::nullopt;
}

// Texts that exporters write where they have nothing to say.
bool IsVoid(std::string_view value) {
  return value.empty() || value == "<<<NULL>>>" || value == "N/A" || value == "[N/A]";
}

std::optional<int32_t> ParseSmallInt(std::string_view text) {
  int32_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

bool LooksLikeBareUuid(std::string_view text) {
  if (text.size() != 36) return false;
  for (size_t i = 0; i < text.size(); ++i) {
    const bool dash = i == 8 || i == 13 || i == 18 || i == 23;
    if (dash ? text[i] != '-' : !absl::ascii_isxdigit(static_cast<unsigned char>(text[i])))
      return false;
  }
  return true;
}

// The labels by what they are about, before they are weighed against each other.
struct RawLabels {
  std::array<std::string_view, kLabelCount> value;
  std::array<bool, kLabelCount> present{};
  bool unknown = false;

  std::string_view operator[](Label label) const { return value[label]; }
};

// nvidia_smi_gpu_info says what the GPU is in labels whose names mean nothing elsewhere.
std::optional<Label> FindLabelIn(Dialect dialect, std::string_view name) {
  if (dialect == Dialect::kNvidiaSmi && name == "name") return kModel;
  if (dialect == Dialect::kNvidiaSmi && name == "index") return kIndex;
  return FindLabel(name);
}

// Of a GPU's series these say that it is only a part of the GPU's reading.
constexpr Label kSplitting[] = {kNvLink, kNvSwitch, kCpuNumber, kCpuCore, kXidCode, kDiscriminator};
bool SplitsEntities(Label label) {
  return std::find(std::begin(kSplitting), std::end(kSplitting), label) != std::end(kSplitting);
}

RawLabels Sort(const SeriesText& series, Dialect dialect) {
  RawLabels raw;
  for (const auto& [name, value] : series.labels) {
    const auto label = FindLabelIn(dialect, name);
    if (!label.has_value()) {
      raw.unknown = true;
      continue;
    }
    // Exporters that write a fixed set of labels leave empty those that do not apply.
    if (!SplitsEntities(*label) || !value.empty()) raw.present[*label] = true;
    if (raw.value[*label].empty() && !IsVoid(value)) raw.value[*label] = value;
  }
  return raw;
}

// A label that only describes, as it may be stored and shown.
std::string Description(std::string_view value, LabelFacts* facts) {
  std::string out;
  facts->repaired_labels += RepairText(value, kMaxDescriptionBytes, &out);
  return out;
}

// A label that names an owner. One that cannot be a name counts as absent: its bytes may not be
// stored, and with other bytes in their place it would be somebody else.
std::string OwnerName(std::string_view value, LabelFacts* facts) {
  if (FaultOfName(value, kMaxNameBytes) == NameFault::kNone) return std::string(value);
  ++facts->refused_owner_labels;
  return {};
}

// "CLUSTER-UUID.CLIQUE" where nobody gives it a name, as GPU feature discovery writes it. A GPU
// without a fabric has a UUID of zeros.
std::string NvlinkDomain(const RawLabels& raw, LabelFacts* facts) {
  std::string domain(raw[kNvlinkDomain]);
  const std::string_view cluster = raw[kFabricCluster];
  if (domain.empty() && cluster.find_first_not_of("0-") != std::string_view::npos) {
    const std::string_view clique = raw[kFabricClique];
    domain = cluster;
    domain += '.';
    domain += clique.empty() ? "0" : clique;
  }
  if (domain.empty() || FaultOfName(domain, kMaxDescriptionBytes) == NameFault::kNone)
    return domain;
  ++facts->repaired_labels;  // with other bytes it would be another domain
  return {};
}

OwnerLabels ReadOwner(const RawLabels& raw, LabelFacts* facts) {
  OwnerLabels owner;
  owner.hpc_job = OwnerName(raw[kHpcJob], facts);
  owner.user = Description(raw[kUser], facts);
  // Prometheus renames the owner's labels where the target has its own: then the plain ones are the
  // exporter's pod.
  const bool renamed = raw.present[kExportedPod] || raw.present[kExportedNamespace] ||
                       raw.present[kExportedContainer];
  const auto refused = facts->refused_owner_labels;
  owner.pod = OwnerName(raw[renamed ? kExportedPod : kPod], facts);
  owner.ns = OwnerName(raw[renamed ? kExportedNamespace : kNamespace], facts);
  owner.container = OwnerName(raw[renamed ? kExportedContainer : kContainer], facts);
  // A pod without its namespace may be another's.
  const bool unreadable = facts->refused_owner_labels != refused;
  // A scraper that adds its target's labels to idle GPUs names the exporter, which owns no GPU.
  if (unreadable || owner.pod.find("dcgm-exporter") != std::string::npos ||
      owner.pod.find("device-metrics-exporter") != std::string::npos) {
    owner.pod.clear();
    owner.ns.clear();
    owner.container.clear();
  }
  return owner;
}

// "MIG-GPU-<uuid>/<gpu instance>/<compute instance>", before R470, names parent and instance.
bool SplitOldMigUuid(std::string_view uuid, std::string* parent, int32_t* instance) {
  constexpr std::string_view kPrefix = "MIG-GPU-";
  if (!uuid.starts_with(kPrefix)) return false;
  uuid.remove_prefix(kPrefix.size());
  const size_t slash = uuid.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view rest = uuid.substr(slash + 1);
  const auto id = ParseSmallInt(rest.substr(0, rest.find('/')));
  if (!id.has_value()) return false;
  *instance = *id;
  *parent = fmt::format("GPU-{}", uuid.substr(0, slash));
  return true;
}

}  // namespace

size_t MetricNameLength(std::string_view text) {
  size_t n = 0;
  while (n < text.size() && kNameChars[static_cast<unsigned char>(text[n])]) ++n;
  if (n > 0 && absl::ascii_isdigit(static_cast<unsigned char>(text[0]))) return 0;
  return n;
}

namespace {

// Reads the labels between braces; *at is after the opening one and left on the closing one.
class LabelReader {
 public:
  LabelReader(std::string_view line, size_t max_labels, SeriesText* out)
      : line_(line), max_labels_(max_labels), out_(*out) {}

  SeriesError Read(size_t* at) {
    const size_t open = *at;
    while (true) {
      *at = SkipBlanks(line_, *at);
      if (*at >= line_.size()) return SeriesError::kMalformed;
      if (line_[*at] == '}') break;
      const size_t start = *at;
      std::string_view label;
      const bool quoted = line_[*at] == '"';
      if (!(quoted ? QuotedName(at, &label) : PlainName(at, &label)))
        return SeriesError::kMalformed;
      *at = SkipBlanks(line_, *at);
      if (*at >= line_.size()) return SeriesError::kMalformed;
      if (quoted && line_[*at] != '=') {
        if (line_[*at] != ',' && line_[*at] != '}') return SeriesError::kMalformed;
        if (!out_.name.empty()) return SeriesError::kMalformed;  // a second name
        out_.name = label;
        out_.quoted_name = true;
        if (line_[*at] == ',') ++*at;
        name_from_ = start;
        name_to_ = *at;
        continue;
      }
      if (const SeriesError error = Value(at, label); error != SeriesError::kNone) return error;
    }
    out_.label_text = line_.substr(open, *at - open);
    if (out_.quoted_name) LeaveNameOut(open, *at);
    return SeriesError::kNone;
  }

 private:
  bool PlainName(size_t* at, std::string_view* name) const {
    const size_t start = *at;
    while (*at < line_.size() && !IsBlank(line_[*at]) && line_[*at] != '=' && line_[*at] != '"' &&
           line_[*at] != ',' && line_[*at] != '{' && line_[*at] != '}')
      ++*at;
    *name = line_.substr(start, *at - start);
    return !name->empty();
  }

  // Here a quote always ends: whoever writes names in quotes escapes.
  bool QuotedName(size_t* at, std::string_view* name) {
    const size_t start = ++*at;
    bool escaped = false;
    while (*at < line_.size() && line_[*at] != '"') {
      if (line_[*at] == '\\') {
        escaped = true;
        ++*at;
      }
      ++*at;
    }
    if (*at >= line_.size()) return false;
    *name = line_.substr(start, *at - start);
    ++*at;
    if (escaped) *name = out_.unescaped.emplace_back(Unescape(*name));
    return !name->empty();
  }

  SeriesError Value(size_t* at, std::string_view label) {
    if (*at >= line_.size() || line_[*at] != '=') return SeriesError::kMalformed;
    *at = SkipBlanks(line_, *at + 1);
    if (*at >= line_.size() || line_[*at] != '"') return SeriesError::kMalformed;
    const size_t start = ++*at;
    bool escaped = false;
    while (*at < line_.size() && !(line_[*at] == '"' && ClosesValue(line_, *at))) {
      if (line_[*at] == '\\') {
        escaped = true;
        ++*at;
      }
      ++*at;
    }
    if (*at >= line_.size()) return SeriesError::kMalformed;
    std::string_view value = line_.substr(start, *at - start);
    if (escaped) value = out_.unescaped.emplace_back(Unescape(value));
    if (out_.labels.size() == max_labels_) return SeriesError::kTooManyLabels;
    out_.labels.emplace_back(label, value);
    *at = SkipBlanks(line_, *at + 1);
    if (*at < line_.size() && line_[*at] == ',') ++*at;
    return SeriesError::kNone;
  }

  void LeaveNameOut(size_t open, size_t close) {
    const size_t after = SkipBlanks(line_, name_to_);
    if (name_from_ == SkipBlanks(line_, open)) {
      out_.label_text = line_.substr(after, close - after);
    } else {
      out_.label_text =
          out_.unescaped.emplace_back(std::string(line_.substr(open, name_from_ - open)) +
                                      std::string(line_.substr(after, close - after)));
    }
  }

  const std::string_view line_;
  const size_t max_labels_;
  SeriesText& out_;
  size_t name_from_ = 0, name_to_ = 0;  // of the quoted name, with the comma after it
};

}  // namespace

SeriesError ParseSeries(std::string_view line, size_t max_labels, SeriesText* out) {
  out->labels.clear();
  out->unescaped.clear();
  out->label_text = {};
  out->quoted_name = false;
  size_t at = SkipBlanks(line, 0);
  const size_t name_length = MetricNameLength(line.substr(at));
  out->name = line.substr(at, name_length);
  const size_t name_end = at + name_length;
  at = SkipBlanks(line, name_end);
  if (at < line.size() && line[at] == '{') {
    ++at;
    if (const SeriesError error = LabelReader(line, max_labels, out).Read(&at);
        error != SeriesError::kNone)
      return error;
    ++at;
  } else if (at == name_end) {
    return SeriesError::kMalformed;  // no labels, no blank: "name" alone, a foreign character
  }
  if (out->name.empty()) return SeriesError::kMalformed;
  at = SkipBlanks(line, at);
  if (at >= line.size()) return SeriesError::kMalformed;
  out->value_at = at;
  return SeriesError::kNone;
}

Dialect DialectOf(std::string_view name) {
  if (StartsWithIgnoringCase(name, "dcgm_")) return Dialect::kDcgm;
  if (StartsWithIgnoringCase(name, "nvidia_smi_")) return Dialect::kNvidiaSmi;
  if (StartsWithIgnoringCase(name, "amd_") || StartsWithIgnoringCase(name, "gpu_") ||
      StartsWithIgnoringCase(name, "pcie_"))
    return Dialect::kAmd;
  return Dialect::kOther;
}

namespace {

// A UUID names the GPU, or with an instance id, or in its own two forms, an instance of it.
void IdentifyByUuid(const std::string& uuid, std::optional<int32_t> instance, LabelFacts* facts) {
  const bool of_mig_device = uuid.starts_with("MIG-");
  int32_t from_uuid = 0;
  if (instance.has_value()) {
    facts->key = {EntityKind::kGpuInstance, uuid, *instance};
    if (!of_mig_device) facts->parent_uuid = uuid;
  } else if (SplitOldMigUuid(uuid, &facts->parent_uuid, &from_uuid)) {
    facts->key = {EntityKind::kGpuInstance, facts->parent_uuid, from_uuid};
  } else if (of_mig_device) {
    facts->key = {EntityKind::kGpuInstance, uuid, 0};  // whose it is, nobody says
  } else {
    facts->key = {EntityKind::kGpu, uuid, -1};
  }
}

// Whether an AMD device is divided, so that this is a part of it.
bool IsPartitioned(const RawLabels& raw) {
  const std::string_view type = raw[kPartitionType];
  return !type.empty() && !EqualsIgnoringCase(type, "spx") && !EqualsIgnoringCase(type, "none");
}

// Without a UUID the serial number stands in, else node and index. False = neither is there.
bool IdentifyOtherwise(const RawLabels& raw, std::optional<int32_t> instance, LabelFacts* facts) {
  std::string stand_in;
  if (!raw[kSerial].empty()) {
    stand_in = raw[kSerial];
    // Partitions of one AMD device share its serial number.
    if (IsPartitioned(raw) && !raw[kPartition].empty())
      stand_in += fmt::format("/p{}", raw[kPartition]);
  } else if (facts->labels.index >= 0) {
    const std::string& node = facts->labels.node;
    stand_in = node.empty() ? fmt::format("gpu{}", facts->labels.index)
                            : fmt::format("{}/gpu{}", node, facts->labels.index);
    facts->by_index_only = true;
  } else {
    return false;
  }
  if (instance.has_value()) {
    facts->key = {EntityKind::kGpuInstance, stand_in, *instance};
    facts->parent_uuid = stand_in;
  } else {
    facts->key = {EntityKind::kGpu, stand_in, -1};
  }
  return true;
}

// dcgm-exporter's lines about a part of the node have no GPU: {nvswitch="0"},
// {nvlink="3",nvswitch="nvswitch0"}, {cpu="0"}, {cpucore="12",cpu="0"}, each with Hostname.
bool IdentifyPart(const RawLabels& raw, LabelFacts* facts) {
  std::string_view of_switch = raw[kNvSwitch];
  if (StartsWithIgnoringCase(of_switch, "nvswitch")) of_switch.remove_prefix(8);
  const std::string_view of_cpu = raw[kCpuNumber];
  const bool link = !raw[kNvLink].empty(), core = !raw[kCpuCore].empty();
  const bool has_switch = !of_switch.empty(), has_cpu = !of_cpu.empty();
  if (raw.present[kDiscriminator] || (has_switch || link) == (has_cpu || core)) return false;
  if ((link && !has_switch) || (core && !has_cpu)) return false;
  std::string name = facts->labels.node.empty() ? "" : facts->labels.node + "/";
  if (has_switch) {
    name += fmt::format("nvswitch{}", of_switch);
    if (link) name += fmt::format("/nvlink{}", raw[kNvLink]);
  } else {
    name += fmt::format("cpu{}", of_cpu);
    if (core) name += fmt::format("/core{}", raw[kCpuCore]);
  }
  facts->key = {link         ? EntityKind::kLink
                : has_switch ? EntityKind::kSwitch
                             : EntityKind::kCpu,
                std::move(name), -1};
  facts->labels.index = ParseSmallInt(link         ? raw[kNvLink]
                                      : core       ? raw[kCpuCore]
                                      : has_switch ? of_switch
                                                   : of_cpu)
                            .value_or(-1);
  facts->entity = LabelFacts::Entity::kPart;
  return true;
}

}  // namespace

namespace {

LabelFacts Read(const SeriesText& series, Dialect dialect, const std::string& default_node) {
  const RawLabels raw = Sort(series, dialect);
  LabelFacts facts;
  facts.unknown_labels = raw.unknown;
  facts.discriminated = std::any_of(std::begin(kSplitting), std::end(kSplitting),
                                    [&](Label l) { return raw.present[l]; });
  facts.error_code = raw.present[kErrorCode];
  if (raw.present[kXidCode]) facts.xid = ParseSmallInt(raw[kXidCode]).value_or(-1);
  facts.clock_type = raw[kClockType];
  constexpr std::string_view kClockPrefix = "GPU_CLOCK_TYPE_";
  if (facts.clock_type.starts_with(kClockPrefix))
    facts.clock_type.remove_prefix(kClockPrefix.size());
  facts.owner = ReadOwner(raw, &facts);

  // A remote host engine makes every exporter call itself localhost (dcgm-exporter#572): then the
  // target knows better.
  std::string_view node = raw[raw[kHost].empty() ? kHostWeak : kHost];
  if (node.empty() || (EqualsIgnoringCase(node, "localhost") && !default_node.empty()))
    node = default_node;
  facts.labels.node = node;
  facts.labels.model = Description(raw[raw[kModelSeries].empty() ? kModel : kModelSeries], &facts);
  // A part of a device is not the device: its mode is in its name, as hardware::Catalog has it.
  if (IsPartitioned(raw) && !facts.labels.model.empty())
    facts.labels.model += " " + absl::AsciiStrToUpper(Description(raw[kPartitionType], &facts));
  facts.labels.device = Description(raw[kDevice], &facts);
  facts.labels.pci_bus_id = Description(raw[kPciBusId], &facts);
  facts.labels.driver = Description(raw[kDriver], &facts);
  facts.labels.mig_profile = Description(raw[kInstanceProfile], &facts);
  facts.labels.nvlink_domain = NvlinkDomain(raw, &facts);
  facts.labels.index = ParseSmallInt(raw[kIndex]).value_or(-1);

  const std::optional<int32_t> instance = ParseSmallInt(raw[kInstanceId]);
  if (!raw[kInstanceId].empty() && !instance.has_value())
    return facts;  // an instance nobody can name
  if (!raw[kUuid].empty()) {
    std::string uuid(raw[kUuid]);
    if (dialect == Dialect::kNvidiaSmi && LooksLikeBareUuid(uuid)) uuid.insert(0, "GPU-");
    IdentifyByUuid(uuid, instance, &facts);
  } else if (!IdentifyOtherwise(raw, instance, &facts)) {
    if (dialect == Dialect::kDcgm && IdentifyPart(raw, &facts)) facts.discriminated = false;
    return facts;
  }
  facts.entity = facts.key.kind == EntityKind::kGpu ? LabelFacts::Entity::kGpu
                                                    : LabelFacts::Entity::kGpuInstance;
  return facts;
}

}  // namespace

LabelFacts ReadLabels(const SeriesText& series, Dialect dialect, const std::string& default_node) {
  LabelFacts facts = Read(series, dialect, default_node);
  facts.fault = FaultOfName(facts.key.uuid, kMaxNameBytes);
  if (facts.fault == NameFault::kNone) facts.fault = FaultOfName(facts.labels.node, kMaxNameBytes);
  return facts;
}

}  // namespace flopwatch::telemetry
