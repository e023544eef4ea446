// flopwatch decode: exposition text -> canonical samples, and counted reasons for what was refused.
// The same decoder as the server's, so what this prints is what a scrape of the file would store.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/json_writer.h"
#include "base/table.h"
#include "base/text.h"
#include "base/time.h"
#include "cli/commands/commands.h"
#include "cli/views/columns.h"
#include "net/http.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"

namespace flopwatch::cli {
namespace {

using telemetry::DecodedRow;
using telemetry::DecodedScrape;
using telemetry::ExpositionDecoder;
using telemetry::FieldId;
using telemetry::FieldKind;
using telemetry::FieldRegistry;
using telemetry::NarrowSample;
using telemetry::OwnerLabels;
using telemetry::ReasonName;
using telemetry::Refusal;

constexpr uint64_t kMaxFileBytes = 1ull << 30;
constexpr size_t kReasons = static_cast<size_t>(Refusal::kCount);

struct DecodeOptions {
  std::vector<std::string> files;
  std::string node;
  bool narrow = false;
  bool stats = false;
  bool fail_on_refused = false;
};

// One file, decoded. The body is kept because narrow samples are views into it.
struct Decoded {
  std::string file;
  std::string body;
  std::unique_ptr<ExpositionDecoder> decoder;
  const DecodedScrape* scrape = nullptr;
};

struct Totals {
  uint64_t rows = 0, samples = 0, narrow = 0;
  std::array<uint64_t, kReasons> refused{};
  std::array<std::string, kReasons> example;
  uint64_t refused_total() const {
    uint64_t sum = 0;
    for (const uint64_t n : refused) sum += n;
    return sum;
  }
};

std::string_view KindName(telemetry::EntityKind kind) {
  // The names are in the order of EntityKind.
  static constexpr std::string_view kNames[] = {"gpu", "gpu_instance", "link", "switch", "cpu"};
  return kNames[static_cast<size_t>(kind)];
}

StatusOr<Decoded> DecodeFile(const std::string& file, const std::string& node,
                             FieldRegistry* registry) {
  Decoded out;
  out.file = file == "-" ? "standard input" : file;
  FW_ASSIGN_OR_RETURN(out.body, ReadFile(file, kMaxFileBytes));
  if (out.body.starts_with("\x1f\x8b")) {
    auto text = net::Gunzip(out.body, kMaxFileBytes);
    if (!text.ok()) return Annotate(text.status(), "cannot decompress " + out.file);
    out.body = *std::move(text);
  }
  out.decoder = std::make_unique<ExpositionDecoder>(registry, node);
  out.scrape = &out.decoder->Decode(out.body);
  return out;
}

void Add(const DecodedScrape& scrape, Totals* totals) {
  totals->rows += scrape.rows.size();
  totals->samples += scrape.stats.samples;
  totals->narrow += scrape.stats.narrow;
  for (size_t r = 0; r < kReasons; ++r) totals->refused[r] += scrape.stats.refused[r];
  for (const auto& [reason, line] : scrape.examples) {
    std::string& example = totals->example[static_cast<size_t>(reason)];
    if (example.empty()) example = line;
  }
}

// --- one JSON object a sample ---

// Absent labels are null, so that every object has the same ones; absent fields are left out, so
// that none looks measured.
void WriteRow(JsonWriter& json, const DecodedRow& row, const std::string* file,
              const FieldRegistry& registry) {
  const auto& labels = *row.labels;
  json.BeginObject();
  if (file != nullptr) json.Field("file", *file);
  json.Field("uuid", row.key->uuid);
  json.Key("gpu_instance");
  row.key->gpu_instance < 0 ? json.Null() : json.Value(row.key->gpu_instance);
  json.Field("kind", KindName(row.key->kind));
  json.TextField("ts", row.timestamp ? FormatTime(*row.timestamp) : "");
  json.TextField("node", labels.node);
  json.Key("index");
  labels.index < 0 ? json.Null() : json.Value(labels.index);
  json.TextField("model", labels.model);
  json.TextField("device", labels.device).TextField("pci_bus_id", labels.pci_bus_id);
  json.TextField("driver", labels.driver).TextField("mig_profile", labels.mig_profile);
  json.Key("owners").BeginArray();
  for (const OwnerLabels* owner : row.owners) {
    json.BeginObject();
    json.TextField("hpc_job", owner->hpc_job);
    json.TextField("namespace", owner->ns).TextField("pod", owner->pod);
    json.TextField("container", owner->container).TextField("user", owner->user);
    json.EndObject();
  }
  json.EndArray();
  for (int f = 0; f < registry.size(); ++f) {
    const auto id = static_cast<FieldId>(f);
    if (row.present.Test(id)) json.Field(registry.spec(id).column, row.values[id]);
  }
  json.EndObject();
}

void WriteNarrow(JsonWriter& json, const NarrowSample& sample, const std::string* file) {
  json.BeginObject();
  if (file != nullptr) json.Field("file", *file);
  json.Field("kind", "narrow")
      .Field("metric", sample.name)
      .Field("labels", sample.labels)
      .Field("value", sample.value);
  json.TextField("ts", sample.timestamp ? FormatTime(*sample.timestamp) : "");
  json.EndObject();
}

std::string AsJson(const std::vector<Decoded>& files, const FieldRegistry& registry, bool narrow,
                   bool lines) {
  std::string out;
  const auto each = [&](const auto& write) {
    for (const Decoded& d : files) {
      const std::string* file = files.size() > 1 ? &d.file : nullptr;
      for (const DecodedRow& row : d.scrape->rows)
        write([&](JsonWriter& json) { WriteRow(json, row, file, registry); });
      if (!narrow) continue;
      for (const NarrowSample& n : d.scrape->narrow)
        write([&](JsonWriter& json) { WriteNarrow(json, n, file); });
    }
  };
  if (lines) {
    each([&](const auto& object) {
      JsonWriter json(&out);
      object(json);
      out += '\n';
    });
  } else {
    JsonWriter json(&out);
    json.BeginArray();
    each([&](const auto& object) { object(json); });
    json.EndArray();
    out += '\n';
  }
  return out;
}

// --- a table ---

std::string Joined(const DecodedRow& row, std::string OwnerLabels::*part) {
  std::string out;
  for (const OwnerLabels* owner : row.owners) {
    const std::string& text = owner->*part;
    if (!text.empty()) out += (out.empty() ? "" : ",") + text;
  }
  return out;
}

// The table without columns in which nothing stands, and the readings before the labels that only
// machines join on: a terminal cuts from the right.
Table ForPeople(const Table& table) {
  static constexpr std::string_view kLast[] = {"kind",      "device", "pci_bus_id", "driver",
                                               "container", "user",   "ts"};
  std::vector<size_t> order;
  for (const bool last : {false, true}) {
    for (size_t c = 0; c < table.columns.size(); ++c) {
      const bool any = std::any_of(table.rows.begin(), table.rows.end(), [c](const auto& row) {
        return !std::holds_alternative<std::monostate>(row[c]);
      });
      const bool is_last =
          std::find(std::begin(kLast), std::end(kLast), table.columns[c].name) != std::end(kLast);
      if (any && is_last == last) order.push_back(c);
    }
  }
  Table out;
  for (const size_t c : order) out.columns.push_back(table.columns[c]);
  for (const auto& row : table.rows) {
    auto& cells = out.rows.emplace_back();
    for (const size_t c : order) cells.push_back(row[c]);
  }
  return out;
}

Table AsTable(const std::vector<Decoded>& files, const FieldRegistry& registry, bool for_people) {
  Table table;
  table.columns = ColumnsOf(
      Column{"file", "FILE"}, Column{"uuid", "GPU"}, Column{"gpu_instance", "MIG"},
      Column{"kind", "KIND"}, Column{"ts", "TIME", ColumnFormat::kTime}, Column{"node", "NODE"},
      Column{"index", "#"}, Column{"model", "MODEL"}, Column{"device", "DEVICE"},
      Column{"pci_bus_id", "PCI"}, Column{"driver", "DRIVER"}, Column{"mig_profile", "PROFILE"},
      Column{"hpc_job", "JOB"}, Column{"namespace", "NAMESPACE"}, Column{"pod", "POD"},
      Column{"container", "CONTAINER"}, Column{"user", "USER"});
  std::vector<FieldId> fields;
  for (int f = 0; f < registry.size(); ++f) {
    const auto id = static_cast<FieldId>(f);
    bool any = false;
    for (const Decoded& d : files) {
      for (const DecodedRow& row : d.scrape->rows) any = any || row.present.Test(id);
    }
    if (!any) continue;
    fields.push_back(id);
    const auto& spec = registry.spec(id);
    table.columns.push_back(
        {spec.column, "",
         spec.kind == FieldKind::kRatio ? ColumnFormat::kPercent : ColumnFormat::kPlain});
  }
  for (const Decoded& d : files) {
    for (const DecodedRow& row : d.scrape->rows) {
      const auto& l = *row.labels;
      std::vector<Cell> cells;
      cells.reserve(table.columns.size());
      const auto number = [&cells](bool there, auto value) {
        there ? cells.emplace_back(value) : cells.emplace_back();
      };
      const auto text = [&cells](const std::string& t) {
        t.empty() ? cells.emplace_back() : cells.emplace_back(t);
      };
      text(files.size() > 1 ? d.file : "");
      text(row.key->uuid);
      number(row.key->gpu_instance >= 0, int64_t{row.key->gpu_instance});
      text(std::string(KindName(row.key->kind)));
      number(row.timestamp.has_value(), int64_t{row.timestamp.value_or(0)});
      text(l.node);
      number(l.index >= 0, int64_t{l.index});
      for (const std::string& t : {l.model, l.device, l.pci_bus_id, l.driver, l.mig_profile})
        text(t);
      for (const auto part : {&OwnerLabels::hpc_job, &OwnerLabels::ns, &OwnerLabels::pod,
                              &OwnerLabels::container, &OwnerLabels::user}) {
        text(Joined(row, part));
      }
      for (const FieldId id : fields) number(row.present.Test(id), row.values[id]);
      table.rows.push_back(std::move(cells));
    }
  }
  return for_people ? ForPeople(table) : table;
}

Table NarrowTable(const std::vector<Decoded>& files) {
  Table table;
  table.columns = {{"metric", "METRIC"}, {"labels", "LABELS"}, {"value", "VALUE"}};
  for (const Decoded& d : files) {
    for (const NarrowSample& n : d.scrape->narrow) {
      table.rows.push_back({std::string(n.name), std::string(n.labels), n.value});
    }
  }
  return table;
}

// --- counts ---

// A file of something else must not look like a quiet exporter. One that says "no value" on every
// line is one: its lines can be read.
Status CheckIsExposition(const std::vector<Decoded>& files) {
  constexpr Refusal kUnreadable[] = {Refusal::kMalformedLine, Refusal::kMalformedValue,
                                     Refusal::kTruncated, Refusal::kLineTooLong};
  for (const Decoded& d : files) {
    const auto& stats = d.scrape->stats;
    uint64_t unreadable = 0;
    for (const Refusal r : kUnreadable) unreadable += stats.refused[static_cast<size_t>(r)];
    if (unreadable == 0 || unreadable < stats.samples + stats.narrow + stats.refused_total())
      continue;
    return DataLoss("no line of {} is a sample ({} refused); is it exporter output?", d.file,
                    unreadable);
  }
  return absl::OkStatus();
}

std::string StatsJson(const Totals& totals, size_t files) {
  std::string out;
  JsonWriter json(&out);
  json.BeginObject()
      .Field("files", files)
      .Field("rows", totals.rows)
      .Field("samples", totals.samples);
  json.Field("narrow", totals.narrow).Field("refused_total", totals.refused_total());
  json.Key("refused").BeginObject();
  for (size_t r = 0; r < kReasons; ++r) {
    if (totals.refused[r] > 0) json.Field(ReasonName(static_cast<Refusal>(r)), totals.refused[r]);
  }
  json.EndObject().EndObject();
  return out + "\n";
}

void SayRefused(Context& context, const Totals& totals) {
  if (totals.refused_total() == 0) return;
  Table table;
  table.columns = {
      {"reason", "REFUSED"}, {"lines", "LINES", ColumnFormat::kCount}, {"example", "FOR EXAMPLE"}};
  for (size_t r = 0; r < kReasons; ++r) {
    if (totals.refused[r] == 0) continue;
    table.rows.push_back({std::string(ReasonName(static_cast<Refusal>(r))),
                          static_cast<int64_t>(totals.refused[r]),
                          CutToWidth(totals.example[r], 100)});
  }
  context.Say(Render(table, {}));
}

Status RunDecode(Context& context, const DecodeOptions& options) {
  FieldRegistry registry;
  std::vector<Decoded> files;
  Totals totals;
  for (const std::string& file : options.files) {
    FW_ASSIGN_OR_RETURN(Decoded decoded, DecodeFile(file, options.node, &registry));
    Add(*decoded.scrape, &totals);
    files.push_back(std::move(decoded));
  }
  if (options.fail_on_refused && totals.refused_total() > 0)
    context.SetExitCode(ExitCode::kPartial);
  if (options.stats) {
    context.Out(StatsJson(totals, files.size()));
    return CheckIsExposition(files);
  }

  const bool narrow = options.narrow || context.verbosity() > 0;
  const OutputFormat format = context.format();
  if ((format == OutputFormat::kJson || format == OutputFormat::kJsonl) &&
      !context.picks_columns()) {
    context.Out(AsJson(files, registry, narrow, format == OutputFormat::kJsonl));
  } else if (options.narrow && format != OutputFormat::kTable && format != OutputFormat::kWide) {
    // One table to a machine-readable stream: --narrow asks for the other one.
    FW_RETURN_IF_ERROR(context.Write(NarrowTable(files)));
  } else {
    FW_RETURN_IF_ERROR(context.Write(AsTable(files, registry, context.for_people())));
    if (narrow && context.for_people()) FW_RETURN_IF_ERROR(context.Write(NarrowTable(files)));
  }
  SayRefused(context, totals);
  if (context.for_people()) {
    context.Say(fmt::format("samples: {}; GPUs and instances: {}; other series: {}{}",
                            totals.samples, totals.rows, totals.narrow,
                            totals.narrow > 0 && !narrow ? " (--narrow shows them)" : ""));
  }
  return CheckIsExposition(files);
}

}  // namespace

Args AddDecode(Args app, Run* run) {
  Args sub = app.Command(
      "decode", "Canonical samples in a file of exporter output, and what is wrong with the rest");
  auto options = std::make_shared<DecodeOptions>();
  sub.Option("files FILE", options->files, "Exposition text, also gzip; - is standard input")
      .Required();
  sub.Option("--node NAME", options->node, "Node name where the labels say none");
  sub.Flag(
      "--narrow", options->narrow,
      "Also the series that are no GPU fields (-v too; in csv and tsv instead of the samples)");
  sub.Flag("--stats", options->stats, "Only the counts, as JSON");
  sub.Flag("--fail-on-refused", options->fail_on_refused, "Exit with 7 when a line was refused");
  sub.Footer(
      "Refused lines are counted by reason on stderr; docs/fields.md says what each reason means.\n"
      "Examples:\n"
      "  curl -s http://gpu-node-1:9400/metrics | flopwatch decode -\n"
      "  flopwatch decode scrape.prom.gz -o jsonl | jq .tensor_active\n"
      "  flopwatch decode *.prom --stats --fail-on-refused");
  *run = [options](Context& context) { return RunDecode(context, *options); };
  return sub;
}

}  // namespace flopwatch::cli
