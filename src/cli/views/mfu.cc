#include "cli/views/mfu.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/json_writer.h"
#include "base/text.h"
#include "cli/views/columns.h"
#include "cli/views/usage.h"

namespace flopwatch::cli {
namespace {

using models::Layer;
using models::Mixer;
using models::Model;

std::string Grouped(int64_t n) {
  std::string digits = fmt::format("{}", n);
  for (int at = static_cast<int>(digits.size()) - 3; at > (n < 0 ? 1 : 0); at -= 3)
    digits.insert(static_cast<size_t>(at), 1, ',');
  return digits;
}

// "8.03 B", "124.4 M": four digits.
std::string Short(int64_t n) {
  static constexpr std::pair<double, const char*> kUnits[] = {
      {1e12, " T"}, {1e9, " B"}, {1e6, " M"}, {1e3, " K"}};
  for (const auto& [scale, unit] : kUnits) {
    const double v = static_cast<double>(n) / scale;
    if (v >= 1) return fmt::format("{:.{}f}{}", v, v >= 100 ? 1 : v >= 10 ? 2 : 3, unit);
  }
  return fmt::format("{}", n);
}

std::string ClassText(const Model& model) {
  // The names are in the order of Model::Kind and of efficiency::ModelClass.
  static constexpr const char* kKinds[] = {"", "encoder", "encoder-decoder", "image encoder",
                                           "diffusion transformer"};
  static constexpr const char* kClasses[] = {"dense", "mixture of experts",
                                             "fine-grained mixture of experts", "hybrid"};
  return model.kind == Model::Kind::kDecoder
             ? kClasses[static_cast<size_t>(*models::ClassOf(model))]
             : kKinds[static_cast<size_t>(model.kind)];
}

std::string MfuHeading(const MfuAnswer& a, const ViewOptions& v) {
  const Model& m = a.model;
  std::string out = Paint(v, Tone::kBold, Printable(m.name, 80)) + "\n";
  std::string what = fmt::format("{} · {} · {} layers", m.model_type, ClassText(m),
                                 m.layers.size() + m.encoder.size());
  what += a.params.total == a.params.active
              ? fmt::format(" · {} parameters", Short(a.params.total))
              : fmt::format(" · {} parameters, {} active", Short(a.params.total),
                            Short(a.params.active));
  if (a.seq_len) {
    what += fmt::format(" · sequences of {} tokens", Grouped(*a.seq_len));
  } else {
    what += fmt::format(" · packed: {} tokens, Σs² {}", Grouped(a.workload.tokens),
                        models::ToString(a.workload.squares));
  }
  if (a.workload.mtp_depth > 0)
    what += fmt::format(" · {} MTP module{}", a.workload.mtp_depth,
                        a.workload.mtp_depth == 1 ? "" : "s");
  out += Wrap(what, v.width, "  ", "  ");
  return out;
}

std::string Labelled(const ViewOptions& v, std::string_view label, std::string_view text) {
  const std::string indent(14, ' ');
  return Wrap(text, v.width, "  " + PadRight(label, 12), indent);
}

std::string Tail(const MfuAnswer& a, const ViewOptions& v) {
  std::string out;
  for (const std::string& note : a.model.notes) out += Labelled(v, "note", note);
  for (const std::string& caution : a.cautions) out += Labelled(v, "careful", caution);
  return out;
}

std::string MixerText(const Layer& l) {
  const models::Attention& a = l.attention;
  std::string out;
  switch (l.mixer) {
    case Mixer::kNone:
      return "-";
    case Mixer::kAttention: {
      const char* kind = a.kv_heads == a.heads ? "MHA" : a.kv_heads == 1 ? "MQA" : "GQA";
      out = a.kv_heads == a.heads ? fmt::format("{} {}x{}", kind, a.heads, a.qk_dim)
                                  : fmt::format("{} {}/{}x{}", kind, a.heads, a.kv_heads, a.qk_dim);
      if (a.output_gate) out += " gated";
      if (a.value_is_key) out += " K=V";
      break;
    }
    case Mixer::kLatentAttention:
      out = fmt::format("MLA {}x{}+{}, ranks {}/{}", a.heads, a.qk_dim, a.v_dim, l.latent.q_rank,
                        l.latent.kv_rank);
      break;
    case Mixer::kMamba1:
      return fmt::format("Mamba-1 {}, state {}", l.mamba.inner, l.mamba.state);
    case Mixer::kMamba2:
      return fmt::format("Mamba-2 {} in {} heads, state {}", l.mamba.inner, l.mamba.heads,
                         l.mamba.state);
    case Mixer::kDeltaNet:
      return fmt::format("delta net {}x{} / {}x{}", l.delta.key_heads, l.delta.key_dim,
                         l.delta.value_heads, l.delta.value_dim);
  }
  if (a.window > 0) out += fmt::format(", window {}", a.window);
  if (a.chunk > 0) out += fmt::format(", chunk {}", a.chunk);
  if (!a.causal) out += ", full";
  if (l.cross_attention) out += ", cross";
  return out;
}

std::string FfnText(const Layer& l) {
  const models::FeedForward& f = l.ffn;
  const char* gate = f.matrices == 3 ? "gated " : "";
  if (f.kind == models::FeedForward::Kind::kDense) return fmt::format("{}MLP {}", gate, f.width);
  if (f.kind == models::FeedForward::Kind::kNone) return "-";
  std::string out = fmt::format("{} of {} {}experts {}", f.top_k, f.experts, gate, f.expert_width);
  if (f.latent > 0) out += fmt::format(" at latent {}", f.latent);
  if (f.shared_width > 0) out += fmt::format(" + shared {}", f.shared_width);
  return out;
}

}  // namespace

StatusOr<MfuRow> MfuRowOf(const models::Convention& convention, const models::Count& count,
                          models::Recompute recompute) {
  MfuRow row;
  row.convention = &convention;
  FW_ASSIGN_OR_RETURN(row.forward, count.ForwardPerToken());
  FW_ASSIGN_OR_RETURN(row.training, count.TrainingPerToken());
  FW_ASSIGN_OR_RETURN(row.hardware,
                      models::DivideRounded(models::HardwareFlops(count, recompute), count.tokens,
                                            "the number of hardware FLOPs of a token"));
  models::Int forward = 0, training = 0;
  int64_t forward_before = 0, training_before = 0;
  for (const models::Term& term : count.terms) {
    forward += term.forward;
    training += term.training;
    FW_ASSIGN_OR_RETURN(const int64_t f, models::DivideRounded(forward, count.tokens, term.name));
    FW_ASSIGN_OR_RETURN(const int64_t t, models::DivideRounded(training, count.tokens, term.name));
    row.terms.push_back({term.name, f - forward_before, t - training_before});
    forward_before = f;
    training_before = t;
  }
  return row;
}

std::string MfuText(const MfuAnswer& a, const ViewOptions& v) {
  const MfuRow& row = a.rows.front();
  std::string out = MfuHeading(a, v);
  out +=
      Labelled(v, "convention", fmt::format("{}: {}", row.convention->id, row.convention->title));
  size_t name = 5;
  for (const MfuRow::Term& term : row.terms) name = std::max(name, term.name.size());
  const int label = static_cast<int>(std::clamp<size_t>(name, 19, 40)) + 1;
  const int number = static_cast<int>(std::max<size_t>(Grouped(row.training).size(), 8)) + 2;
  const int bar = std::clamp(v.width - 2 - label - 2 * number - 10, 0, 30);
  out += "\n" +
         Paint(v, Tone::kDim,
               "  " + PadRight("TERM, FLOPS A TOKEN", label) + PadLeft("FORWARD", number) +
                   PadLeft("TRAINING", number) + PadLeft("SHARE", 9)) +
         "\n";
  const double total = static_cast<double>(row.training);
  for (const MfuRow::Term& term : row.terms) {
    const std::optional<double> share =
        total > 0 ? std::optional(static_cast<double>(term.training) / total) : std::nullopt;
    out += "  " + PadRight(term.name, label) + PadLeft(Grouped(term.forward), number) +
           PadLeft(Grouped(term.training), number) + PadLeft(Percent(share), 9);
    if (bar >= 6) out += " " + Bar(v, share, bar);
    out += "\n";
  }
  out += Paint(v, Tone::kBold,
               "  " + PadRight("total", label) + PadLeft(Grouped(row.forward), number) +
                   PadLeft(Grouped(row.training), number)) +
         "\n\n";
  if (row.hardware != row.training) {
    out += Labelled(v, "hardware",
                    fmt::format("{} FLOPs a token with recomputation ({}): {:.4g} of training",
                                Grouped(row.hardware), models::RecomputeName(a.recompute),
                                static_cast<double>(row.hardware) / total));
  }
  if (row.ratio_to_exact && std::abs(*row.ratio_to_exact - 1) >= 5e-5)
    out += Labelled(v, "vs exact", fmt::format("{:.4f}", *row.ratio_to_exact));
  if (row.mfu) {
    const int meter = std::clamp(v.width - 14 - 8 - 2, 10, 40);
    out += "  " + PadRight("MFU", 12) + PadLeft(Percent(row.mfu), 7) + " " +
           Bar(v, std::min(*row.mfu, 1.0), meter) + "\n";
    if (row.hfu)
      out += "  " + PadRight("HFU", 12) + PadLeft(Percent(row.hfu), 7) + " " +
             Bar(v, std::min(*row.hfu, 1.0), meter) + "\n";
    out += Labelled(v, "achieved",
                    fmt::format("{:.1f} TFLOP/s a GPU of {}", *row.tflops_per_gpu, a.peak_text));
    if (row.band) out += Labelled(v, "band", row.band->text);
  }
  if (!row.mfu && a.peak_tflops) out += Labelled(v, "peak", a.peak_text);
  out += Labelled(v, "leaves out", row.convention->leaves_out);
  out += Labelled(v, "source", row.convention->source);
  return out + Tail(a, v);
}

std::string MfuComparison(const MfuAnswer& a, const ViewOptions& v) {
  std::string out = MfuHeading(a, v) + "\n";
  size_t longest = 10;
  for (const MfuRow& row : a.rows) longest = std::max(longest, row.convention->id.size());
  const int name = static_cast<int>(longest) + 2, number = 20;
  const bool mfu =
      std::any_of(a.rows.begin(), a.rows.end(), [](const MfuRow& r) { return r.mfu.has_value(); });
  const bool hfu = mfu && a.recompute != models::Recompute::kNone;
  const int used = 2 + name + number + 10 + (mfu ? 9 : 0) + (hfu ? 9 : 0) + 2;
  std::string head = "  " + PadRight("CONVENTION", name) + PadLeft("TRAINING A TOKEN", number) +
                     PadLeft("VS EXACT", 10);
  if (mfu) head += PadLeft("MFU", 9);
  if (hfu) head += PadLeft("HFU", 9);
  out += Paint(v, Tone::kDim, head) + "\n";
  for (const MfuRow& row : a.rows) {
    out += "  " + PadRight(row.convention->id, name) + PadLeft(Grouped(row.training), number) +
           PadLeft(row.ratio_to_exact ? fmt::format("{:.4f}", *row.ratio_to_exact) : "-", 10);
    if (mfu) out += PadLeft(Percent(row.mfu), 9);
    if (hfu) out += PadLeft(Percent(row.hfu), 9);
    if (v.width - used >= 20)
      out += "  " + Paint(v, Tone::kDim, CutToWidth(row.convention->title, v.width - used));
    out += "\n";
  }
  out += "\n";
  if (a.peak_tflops) out += Labelled(v, "peak", a.peak_text);
  return out + Tail(a, v);
}

namespace {

void AppendRow(const MfuAnswer& a, const MfuRow& row, JsonWriter* json) {
  const Model& m = a.model;
  const auto model_class = models::ClassOf(m);
  json->BeginObject();
  json->Field("model", m.name).Field("convention", row.convention->id).Field("seq_len", a.seq_len);
  json->Field("forward_flops_per_token", row.forward)
      .Field("training_flops_per_token", row.training);
  json->Field("active_params", a.params.active).Field("total_params", a.params.total);
  json->Field("matmul_active_params", a.params.matmul_active);
  json->Key("terms").BeginArray();
  for (const MfuRow::Term& term : row.terms) {
    json->BeginObject();
    json->Field("name", term.name)
        .Field("flops", term.forward)
        .Field("training_flops", term.training);
    json->EndObject();
  }
  json->EndArray();
  json->Field("ratio_to_exact", row.ratio_to_exact);
  json->Field("recompute", models::RecomputeName(a.recompute))
      .Field("hardware_flops_per_token", row.hardware);
  json->Field("mfu", row.mfu).Field("hfu", row.hfu).Field("tflops_per_gpu", row.tflops_per_gpu);
  json->Field("peak_tflops", a.peak_tflops)
      .Field("peak", a.peak_text.empty() ? std::nullopt : std::optional(a.peak_text));
  json->Field("band", row.band
                          ? std::optional(std::string(efficiency::BandLevelName(row.band->level)))
                          : std::nullopt);
  json->Field("model_type", m.model_type);
  json->Field("model_class",
              model_class ? std::optional(std::string(efficiency::ModelClassName(*model_class)))
                          : std::nullopt);
  json->Field("layers", m.layers.size() + m.encoder.size());
  json->Field("tokens", a.workload.tokens).Field("mtp_depth", a.workload.mtp_depth);
  json->Field("source", row.convention->source).Field("leaves_out", row.convention->leaves_out);
  json->Key("notes").BeginArray();
  for (const std::string& note : m.notes) json->Value(note);
  for (const std::string& caution : a.cautions) json->Value(caution);
  json->EndArray();
  json->EndObject();
}

}  // namespace

std::string MfuJson(const MfuAnswer& a, bool lines) {
  std::string out = lines ? "" : "[";
  for (size_t i = 0; i < a.rows.size(); ++i) {
    if (!lines) out += i == 0 ? "\n  " : ",\n  ";
    JsonWriter json(&out);
    AppendRow(a, a.rows[i], &json);
    if (lines) out += "\n";
  }
  return lines ? out : out + "\n]\n";
}

Table MfuTable(const MfuAnswer& a) {
  Table table;
  table.columns = ColumnsOf(
      Column{"model", "MODEL"}, Column{"convention", "CONVENTION"}, Column{"seq_len", "SEQ"},
      Column{"forward_flops_per_token", "FORWARD"}, Column{"training_flops_per_token", "TRAINING"},
      Column{"ratio_to_exact", "VS EXACT"}, Column{"mfu", "MFU", ColumnFormat::kPercent},
      Column{"hfu", "HFU", ColumnFormat::kPercent}, Column{"tflops_per_gpu", "TFLOP/S"},
      Column{"peak_tflops", "PEAK"}, Column{"band", "BAND"}, Column{"active_params", "ACTIVE"},
      Column{"total_params", "PARAMETERS"}, Column{"matmul_active_params", "MATMUL"},
      Column{"hardware_flops_per_token", "HARDWARE"}, Column{"model_type", "TYPE"},
      Column{"source", "SOURCE"}, Column{"leaves_out", "LEAVES OUT"});
  for (const MfuRow& row : a.rows) {
    table.rows.push_back(
        {a.model.name, std::string(row.convention->id), a.seq_len ? Cell(*a.seq_len) : Cell(),
         row.forward, row.training, NumberCell(row.ratio_to_exact), NumberCell(row.mfu),
         NumberCell(row.hfu), NumberCell(row.tflops_per_gpu), NumberCell(a.peak_tflops),
         row.band ? Cell(std::string(efficiency::BandLevelName(row.band->level))) : Cell(),
         a.params.active, a.params.total, a.params.matmul_active, row.hardware, a.model.model_type,
         std::string(row.convention->source), std::string(row.convention->leaves_out)});
  }
  table.notes = a.model.notes;
  table.notes.insert(table.notes.end(), a.cautions.begin(), a.cautions.end());
  return table;
}

Table MfuTerms(const MfuAnswer& a) {
  Table table;
  table.columns = ColumnsOf(Column{"model", "MODEL"}, Column{"convention", "CONVENTION"},
                            Column{"term", "TERM"}, Column{"forward_flops_per_token", "FORWARD"},
                            Column{"training_flops_per_token", "TRAINING"},
                            Column{"share", "SHARE", ColumnFormat::kPercentBar});
  for (const MfuRow& row : a.rows) {
    for (const MfuRow::Term& term : row.terms) {
      table.rows.push_back(
          {a.model.name, std::string(row.convention->id), term.name, term.forward, term.training,
           row.training > 0
               ? Cell(static_cast<double>(term.training) / static_cast<double>(row.training))
               : Cell()});
    }
  }
  table.notes = a.model.notes;
  return table;
}

Table LayersTable(const Model& model) {
  Table table;
  table.columns =
      ColumnsOf(Column{"stack", "STACK"}, Column{"first", "FIRST"}, Column{"last", "LAST"},
                Column{"mixer", "MIXER"}, Column{"feed_forward", "FEED-FORWARD"});
  for (const std::vector<Layer>* list : {&model.encoder, &model.layers}) {
    const std::string stack = list == &model.encoder                       ? "encoder"
                              : model.kind == Model::Kind::kEncoderDecoder ? "decoder"
                                                                           : "layers";
    std::string mixer, ffn;
    for (size_t i = 0; i < list->size(); ++i) {
      const std::string own_mixer = MixerText((*list)[i]), own_ffn = FfnText((*list)[i]);
      if (i > 0 && own_mixer == mixer && own_ffn == ffn) {
        table.rows.back()[2] = static_cast<int64_t>(i);
        continue;
      }
      mixer = own_mixer;
      ffn = own_ffn;
      table.rows.push_back({stack, static_cast<int64_t>(i), static_cast<int64_t>(i), mixer, ffn});
    }
  }
  table.notes = model.notes;
  return table;
}

Table MiscountsTable(const std::string& model, int64_t exact,
                     const std::vector<models::Candidate>& candidates) {
  Table table;
  table.columns = ColumnsOf(Column{"model", "MODEL"}, Column{"miscount", "MISCOUNT"},
                            Column{"training_flops_per_token", "TRAINING"},
                            Column{"ratio_to_exact", "VS EXACT"},
                            Column{"description", "WHAT WENT WRONG"}, Column{"source", "SOURCE"});
  for (const models::Candidate& c : candidates) {
    if (!c.error) continue;
    table.rows.push_back(
        {model, c.id, c.training_flops_per_token,
         static_cast<double>(c.training_flops_per_token) / static_cast<double>(exact),
         c.description, c.source});
  }
  return table;
}

Table ConventionsTable() {
  Table table;
  table.columns = {{"convention", "CONVENTION"},
                   {"what", "WHAT"},
                   {"leaves_out", "LEAVES OUT"},
                   {"source", "SOURCE"}};
  for (const models::Convention* c : models::Conventions()) {
    table.rows.push_back({std::string(c->id), std::string(c->title), std::string(c->leaves_out),
                          std::string(c->source)});
  }
  return table;
}

}  // namespace flopwatch::cli
