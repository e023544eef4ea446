// flopwatch calc ofu: OFU of one sample, of cycle totals, or of every GPU of one scrape.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/text.h"
#include "cli/commands/calc.h"
#include "cli/commands/site_catalog.h"
#include "cli/views/columns.h"
#include "efficiency/ofu.h"
#include "hardware/accelerator.h"
#include "telemetry/exposition.h"

namespace flopwatch::cli {
namespace {

using hardware::Accelerator;
using hardware::Precision;

constexpr uint64_t kMaxExpositionBytes = 256ull << 20;
constexpr double kUnknown = std::numeric_limits<double>::quiet_NaN();

struct OfuOptions {
  std::string file, gpu, precision;
  std::optional<double> tensor_active, sm_clock, tensor_clock_max, seconds, scale;
  std::vector<uint64_t> mma_cycles, elapsed_cycles;
};

// What OFU is measured against: a device, a clock given by hand, or both (the clock given wins).
struct Denominator {
  const Accelerator* device = nullptr;
  double tensor_clock_max_mhz = kUnknown;
  std::string source;
};

StatusOr<Denominator> FindDenominator(const hardware::Catalog& catalog, const OfuOptions& options) {
  Denominator out;
  if (!options.gpu.empty()) {
    FW_ASSIGN_OR_RETURN(out.device, catalog.Find(options.gpu));
    if (out.device->tensor_clock_max_mhz) {
      out.tensor_clock_max_mhz = *out.device->tensor_clock_max_mhz;
      out.source = fmt::format("{}: {} ({})", out.device->model, out.device->source,
                               hardware::ConfidenceName(out.device->confidence));
    }
  }
  if (options.tensor_clock_max) {
    out.tensor_clock_max_mhz = *options.tensor_clock_max;
    out.source = "given by --tensor-clock-max";
  }
  if (std::isnan(out.tensor_clock_max_mhz)) {
    if (out.device == nullptr)
      return InvalidArgument(
          "calc ofu: the maximum tensor clock is not known; give --gpu NAME or --tensor-clock-max "
          "MHZ");
    return InvalidArgument(
        "calc ofu: no tensor clock is on record for {}; give --tensor-clock-max MHZ",
        out.device->model);
  }
  return out;
}

// Adds the columns every form of `calc ofu` on numbers ends with.
Status AddResult(Table* table, const OfuOptions& options, const Denominator& denominator,
                 double ofu, const std::string& formula) {
  std::vector<Cell>& row = table->rows.at(0);
  const auto add = [&](Column column, Cell cell) {
    table->columns.push_back(std::move(column));
    row.push_back(std::move(cell));
  };
  add({"tensor_clock_max_mhz", "MAX TENSOR MHZ"}, denominator.tensor_clock_max_mhz);
  add({"ofu", "OFU", ColumnFormat::kPercent}, ofu);
  if (denominator.device != nullptr && denominator.device->tpa_ceiling_fp32_acc.value_or(1) < 1) {
    const double ceiling = *denominator.device->tpa_ceiling_fp32_acc;
    add({"ofu_of_ceiling", "OF CEILING", ColumnFormat::kPercent}, ofu / ceiling);
    table->notes.push_back(
        fmt::format("{}: with FP32 accumulation the counter tops out at {:.0f} %",
                    denominator.device->model, ceiling * 100));
  }
  if (!options.precision.empty()) {
    FW_ASSIGN_OR_RETURN(const Precision precision, hardware::ParsePrecision(options.precision));
    if (denominator.device == nullptr)
      return InvalidArgument("calc ofu: --precision needs --gpu NAME");
    FW_ASSIGN_OR_RETURN(const hardware::Peak peak,
                        hardware::PeakOf(*denominator.device, precision));
    add({"precision", "PRECISION"}, std::string(hardware::PrecisionName(precision)));
    add({"tflops", "TFLOP/S"}, RoundedTflops(ofu * peak.tflops));
    add({"peak_tflops", "PEAK TFLOP/S"}, RoundedTflops(peak.tflops));
    table->notes.push_back(fmt::format(
        "TFLOP/s if all tensor work was {}: the counter does not tell precisions apart; peak {}",
        hardware::PrecisionName(precision), peak.source));
  }
  add({"formula", "FORMULA"}, formula);
  add({"source", "SOURCE"}, denominator.source);
  return absl::OkStatus();
}

Status RunOfuOfSample(Context& context, const OfuOptions& options) {
  if (!options.tensor_active || !options.sm_clock) {
    return InvalidArgument(
        "calc ofu; give --tensor-active X with --sm-clock MHZ, or --mma-cycles A,B with --seconds "
        "S, or a FILE");
  }
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  FW_ASSIGN_OR_RETURN(const Denominator denominator, FindDenominator(catalog, options));
  FW_ASSIGN_OR_RETURN(const double ofu,
                      efficiency::OfuFromRatio(*options.tensor_active, *options.sm_clock,
                                               denominator.tensor_clock_max_mhz));
  Table table;
  table.columns = {{"gpu", "GPU"},
                   {"tensor_active", "TENSOR", ColumnFormat::kPercent},
                   {"sm_clock_mhz", "SM MHZ"}};
  table.rows = {{TextCell(denominator.device != nullptr ? denominator.device->model : ""),
                 *options.tensor_active, *options.sm_clock}};
  FW_RETURN_IF_ERROR(
      AddResult(&table, options, denominator, ofu, "tensor_active * sm_clock / tensor_clock_max"));
  table.notes.push_back(fmt::format(
      "OFU = tensor activity x SM clock / maximum tensor clock = {} x {} / {} = {:.4f} "
      "(OFU paper, eq. 1)",
      *options.tensor_active, *options.sm_clock, denominator.tensor_clock_max_mhz, ofu));
  return context.Write(table);
}

Status RunOfuOfCycles(Context& context, const OfuOptions& options) {
  if (options.mma_cycles.size() != 2 || !options.seconds) {
    return InvalidArgument(
        "calc ofu: --mma-cycles takes two readings A,B and needs --seconds between them");
  }
  if (!options.elapsed_cycles.empty() && options.elapsed_cycles.size() != 2) {
    return InvalidArgument("calc ofu: --elapsed-cycles takes two readings A,B");
  }
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  FW_ASSIGN_OR_RETURN(const Denominator denominator, FindDenominator(catalog, options));
  efficiency::CycleReading before{0, options.mma_cycles[0], std::nullopt};
  efficiency::CycleReading after{*options.seconds, options.mma_cycles[1], std::nullopt};
  if (!options.elapsed_cycles.empty()) {
    before.sm_cycles_elapsed = options.elapsed_cycles[0];
    after.sm_cycles_elapsed = options.elapsed_cycles[1];
  }

  double scale = 1;
  std::string scale_note =
      "scale 1 assumed: the total is taken as averaged over SMs; --scale or --elapsed-cycles "
      "decide it";
  if (options.scale) {
    scale = *options.scale;
    scale_note = fmt::format("scale {} given", scale);
  } else if (after.sm_cycles_elapsed && options.sm_clock) {
    const int sms = denominator.device != nullptr ? denominator.device->sm_count.value_or(1) : 1;
    const auto calibrated = efficiency::CalibrateCycleScale(before, after, *options.sm_clock, sms);
    if (!calibrated) {
      return FailedPrecondition(
          "calc ofu: elapsed cycles fit neither one SM nor {} SMs at {} MHz: check the "
          "readings, or give --scale",
          sms, *options.sm_clock);
    }
    scale = *calibrated;
    scale_note =
        fmt::format("scale {} calibrated from elapsed cycles at {} MHz", scale, *options.sm_clock);
  }

  const efficiency::CycleOfu cycles = efficiency::OfuFromCycles(before, after, scale);
  switch (cycles.outcome) {
    case efficiency::CycleOutcome::kOk:
      break;
    case efficiency::CycleOutcome::kReset:
      return FailedPrecondition(
          "calc ofu: the total went back: the GPU was reset between the readings");
    case efficiency::CycleOutcome::kNoTime:
      return InvalidArgument("calc ofu: --seconds must be positive");
    case efficiency::CycleOutcome::kUncalibrated:
      return FailedPrecondition(
          "calc ofu: no SM runs that fast with scale {}: a total summed over SMs needs "
          "--scale SM-COUNT",
          scale);
  }
  const double ofu = cycles.tensor_mhz / denominator.tensor_clock_max_mhz;
  if (ofu > efficiency::kOfuMaxCredible) {
    return OutOfRange(
        "calc ofu: OFU {:.3f} is above {}: {:.1f} MHz of tensor cycles against {} MHz ({})", ofu,
        efficiency::kOfuMaxCredible, cycles.tensor_mhz, denominator.tensor_clock_max_mhz,
        scale_note);
  }
  Table table;
  table.columns = {
      {"gpu", "GPU"}, {"seconds", "SECONDS"}, {"scale", "SCALE"}, {"tensor_mhz", "TENSOR MHZ"}};
  table.rows = {{TextCell(denominator.device != nullptr ? denominator.device->model : ""),
                 *options.seconds, scale, cycles.tensor_mhz}};
  FW_RETURN_IF_ERROR(AddResult(&table, options, denominator, ofu,
                               "mma_cycles / (seconds * scale * tensor_clock_max)"));
  table.notes.push_back(fmt::format(
      "OFU = MMA-active cycles / (seconds x scale x maximum tensor clock) = {:.4f}: no clock was "
      "sampled",
      ofu));
  table.notes.push_back(scale_note);
  return context.Write(table);
}

// One GPU or instance of a scrape, with its OFU or the reason why there is none.
struct EntityOfu {
  const telemetry::DecodedRow* row = nullptr;
  const Accelerator* device = nullptr;
  std::string model;
  double tensor_active = kUnknown, sm_clock_mhz = kUnknown;
  std::optional<double> ofu;
  std::string reason;
  std::optional<int> sm_count;       // of the instance, or of the GPU
  std::optional<double> sm_weight;   // instance SMs / GPU SMs
  std::optional<double> ofu_by_sms;  // on a GPU with instances: over all its SMs
};

double ValueOr(const telemetry::DecodedRow* row, telemetry::FieldId field, double absent) {
  return row != nullptr && row->present.Test(field) ? row->values[field] : absent;
}

EntityOfu Evaluate(const telemetry::DecodedRow& row, const telemetry::DecodedRow* board,
                   const hardware::Catalog& catalog, const OfuOptions& options) {
  EntityOfu e;
  e.row = &row;
  e.model = row.labels->model;
  if (e.model.empty() && board != nullptr) e.model = board->labels->model;
  if (e.model.empty()) e.model = options.gpu;
  e.tensor_active = ValueOr(&row, telemetry::kTensorActive, kUnknown);
  // The clock is one for the board; an exporter may repeat it on each instance or give it on the
  // GPU's line alone.
  e.sm_clock_mhz =
      ValueOr(&row, telemetry::kSmClockMhz, ValueOr(board, telemetry::kSmClockMhz, kUnknown));

  if (e.model.empty()) {
    e.reason = "the exporter names no model: give --gpu NAME";
  } else if (const auto found = catalog.Find(e.model); !found.ok()) {
    e.reason = std::string(found.status().message());
  } else {
    e.device = *found;
    e.sm_count = e.device->sm_count;
  }
  if (row.key->gpu_instance >= 0) {
    e.sm_count.reset();
    if (e.device != nullptr) {
      if (const auto sms = hardware::MigProfileSms(*e.device, row.labels->mig_profile); sms.ok()) {
        e.sm_count = *sms;
        if (e.device->sm_count) e.sm_weight = static_cast<double>(*sms) / *e.device->sm_count;
      }
    }
  }
  const double clock_max = options.tensor_clock_max ? *options.tensor_clock_max
                           : e.device != nullptr ? e.device->tensor_clock_max_mhz.value_or(kUnknown)
                                                 : kUnknown;
  if (e.device == nullptr && !options.tensor_clock_max) return e;
  const auto ofu = efficiency::OfuFromRatio(e.tensor_active, e.sm_clock_mhz, clock_max);
  if (ofu.ok()) {
    e.ofu = *ofu;
    e.reason.clear();
  } else {
    e.reason = std::string(ofu.status().message());
  }
  return e;
}

// The GPU seen as the sum of its instances: adds a note, and ofu_by_sms to the GPU's row if any.
void AddMigView(const std::string& uuid, const std::vector<EntityOfu*>& instances, EntityOfu* gpu,
                Table* table) {
  const Accelerator* device = instances.front()->device;
  if (device == nullptr || !device->sm_count) return;
  std::vector<efficiency::MigSlice> slices;
  size_t without = 0;
  for (const EntityOfu* instance : instances) {
    if (instance->ofu && instance->sm_count) {
      slices.push_back({*instance->ofu, *instance->sm_count});
    } else {
      ++without;
    }
  }
  if (gpu != nullptr && std::isnan(gpu->tensor_active))
    gpu->reason = "MIG: tensor activity is given per instance";
  const auto mig = efficiency::OfuOfMig(slices, *device->sm_count);
  if (!mig.ok() || slices.empty()) return;
  if (gpu != nullptr && without == 0) gpu->ofu_by_sms = mig->ofu;
  table->notes.push_back(fmt::format(
      "{}: instances with an OFU cover {} of {} SMs; over all SMs they come to OFU {:.4f}, {} SMs "
      "are in no such "
      "instance{}{}",
      Printable(uuid), mig->covered_sms, *device->sm_count, mig->ofu, mig->uncovered_sms,
      without > 0 ? fmt::format(" ({} instances have no OFU or no known SM count)", without) : "",
      gpu != nullptr && gpu->ofu ? "; the GPU's own line counts only SMs that are in use" : ""));
}

using Rows = std::vector<const telemetry::DecodedRow*>;

// The GPUs and instances of a scrape, instances behind their GPU.
Rows GpuRows(const telemetry::DecodedScrape& scrape) {
  std::map<std::string_view, size_t> order;  // of first appearance
  Rows rows;
  for (const telemetry::DecodedRow& row : scrape.rows) {
    if (row.key->kind != telemetry::EntityKind::kGpu &&
        row.key->kind != telemetry::EntityKind::kGpuInstance)
      continue;
    order.emplace(row.key->uuid, order.size());
    rows.push_back(&row);
  }
  std::ranges::stable_sort(rows, {}, [&](const telemetry::DecodedRow* r) {
    return std::pair(order[r->key->uuid], r->key->gpu_instance);
  });
  return rows;
}

std::vector<EntityOfu> EvaluateAll(const Rows& rows, const hardware::Catalog& catalog,
                                   const OfuOptions& options) {
  std::map<std::string_view, const telemetry::DecodedRow*> boards;
  for (const telemetry::DecodedRow* row : rows)
    if (row->key->kind == telemetry::EntityKind::kGpu) boards[row->key->uuid] = row;
  std::vector<EntityOfu> entities;
  for (const telemetry::DecodedRow* row : rows) {
    const auto board = boards.find(row->key->uuid);
    entities.push_back(
        Evaluate(*row, board != boards.end() ? board->second : nullptr, catalog, options));
  }
  return entities;
}

// "3 out_of_bounds, 1 malformed"; "" where nothing was.
std::string RefusedLines(const telemetry::DecodeStats& stats) {
  std::string out;
  for (size_t i = 0; i < stats.refused.size(); ++i) {
    if (stats.refused[i] == 0) continue;
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", stats.refused[i],
                       telemetry::ReasonName(static_cast<telemetry::Refusal>(i)));
  }
  return out;
}

Table EntityTable(std::vector<EntityOfu>* entities) {
  Table table;
  table.columns = ColumnsOf(
      Column{"gpu", "GPU"}, Column{"gpu_instance", "GI"}, Column{"mig_profile", "PROFILE"},
      Column{"model", "MODEL"}, Column{"tensor_active", "TENSOR", ColumnFormat::kPercent},
      Column{"sm_clock_mhz", "SM MHZ"}, Column{"ofu", "OFU", ColumnFormat::kPercent},
      Column{"reason", "REASON"}, Column{"sm_count", "SMS"},
      Column{"sm_weight", "SM WEIGHT", ColumnFormat::kPercent},
      Column{"ofu_by_sms", "OFU BY SMS", ColumnFormat::kPercent}, Column{"node", "NODE"});
  std::map<std::string, std::vector<EntityOfu*>> instances;
  std::map<std::string_view, EntityOfu*> gpus;
  for (EntityOfu& e : *entities) {
    if (e.row->key->gpu_instance >= 0) {
      instances[e.row->key->uuid].push_back(&e);
    } else {
      gpus[e.row->key->uuid] = &e;
    }
  }
  for (const auto& [uuid, of_gpu] : instances) AddMigView(uuid, of_gpu, gpus[uuid], &table);
  size_t computable = 0;
  for (const EntityOfu& e : *entities) {
    computable += e.ofu.has_value();
    const int instance = e.row->key->gpu_instance;
    AddRow(&table, Printable(e.row->key->uuid), instance >= 0 ? Cell(int64_t{instance}) : Cell(),
           TextCell(Printable(e.row->labels->mig_profile)), TextCell(Printable(e.model)),
           std::isnan(e.tensor_active) ? Cell() : Cell(e.tensor_active),
           std::isnan(e.sm_clock_mhz) ? Cell() : Cell(e.sm_clock_mhz), CellOf(e.ofu),
           TextCell(e.reason), CellOf(e.sm_count), CellOf(e.sm_weight), CellOf(e.ofu_by_sms),
           TextCell(Printable(e.row->labels->node)));
  }
  table.notes.push_back(fmt::format(
      "OFU = tensor activity x SM clock / maximum tensor clock (OFU paper, eq. 1); computable for "
      "{} of {} GPUs and instances",
      computable, entities->size()));
  return table;
}

Status RunOfuOfFile(Context& context, const OfuOptions& options) {
  FW_ASSIGN_OR_RETURN(const hardware::Catalog catalog, SiteCatalog(context));
  if (!options.gpu.empty()) FW_RETURN_IF_ERROR(catalog.Find(options.gpu).status());
  FW_ASSIGN_OR_RETURN(const std::string text, ReadFile(options.file, kMaxExpositionBytes));
  telemetry::FieldRegistry registry;
  // Series without a host label need a node; the file's own name stands in for it.
  telemetry::ExpositionDecoder decoder(&registry, options.file.substr(options.file.rfind('/') + 1));
  const telemetry::DecodedScrape& scrape = decoder.Decode(text);
  std::vector<EntityOfu> entities = EvaluateAll(GpuRows(scrape), catalog, options);
  const std::string refused = RefusedLines(scrape.stats);
  if (entities.empty()) {
    return FailedPrecondition("calc ofu: no GPU in {}: {}", options.file,
                              refused.empty() ? "is it exporter text?" : "refused " + refused);
  }
  Table table = EntityTable(&entities);
  if (!refused.empty()) table.notes.push_back("lines refused: " + refused);
  return context.Write(table);
}

Status RunOfu(Context& context, const OfuOptions& options) {
  const int forms =
      !options.file.empty() + !options.mma_cycles.empty() + options.tensor_active.has_value();
  if (forms > 1) {
    return InvalidArgument("calc ofu: FILE, --tensor-active and --mma-cycles exclude each other");
  }
  if (!options.file.empty()) return RunOfuOfFile(context, options);
  if (!options.mma_cycles.empty()) return RunOfuOfCycles(context, options);
  return RunOfuOfSample(context, options);
}

}  // namespace

Args AddCalcOfu(Args calc, Run* run) {
  auto ofu = std::make_shared<OfuOptions>();
  Args ofu_app = calc.Command(
      "ofu", "Overall FLOP Utilisation of one sample, of cycle totals, or of a scrape");
  ofu_app.Option("FILE", ofu->file, "Exporter text, one scrape; - reads standard input");
  ofu_app.Option("--gpu NAME", ofu->gpu,
                 "Accelerator; with FILE only where the exporter names no model");
  ofu_app.Option("--tensor-active X", ofu->tensor_active, "Tensor-pipe activity, 0..1");
  ofu_app.Option("--sm-clock MHZ", ofu->sm_clock, "SM clock");
  ofu_app.Option("--tensor-clock-max MHZ", ofu->tensor_clock_max,
                 "Maximum tensor clock, instead of the table's");
  ofu_app.Option("--precision P", ofu->precision,
                 "Also TFLOP/s, if all tensor work had this precision");
  ofu_app.Option("--mma-cycles A,B", ofu->mma_cycles, "Two readings of the MMA-active cycle total")
      .Delimiter(',')
      .OneWord();
  ofu_app
      .Option("--elapsed-cycles A,B", ofu->elapsed_cycles,
              "The same readings of elapsed SM cycles: calibrates --scale")
      .Delimiter(',')
      .OneWord();
  ofu_app.Option("--seconds S", ofu->seconds, "Time between the two readings");
  ofu_app.Option("--scale K", ofu->scale,
                 "Counter cycles per SM cycle: 1 (averaged) or the SM count (summed)");
  ofu_app.Footer(
      "Examples:\n"
      "  flopwatch calc ofu --tensor-active 0.7 --sm-clock 1400 --gpu \"H100 SXM\" --precision "
      "bf16\n"
      "  flopwatch calc ofu --mma-cycles 120000000000,138300000000 --seconds 10 --gpu \"H100 "
      "SXM\"\n"
      "  curl -s localhost:9400/metrics | flopwatch calc ofu -");
  *run = [ofu](Context& context) { return RunOfu(context, *ofu); };
  return ofu_app;
}

}  // namespace flopwatch::cli
