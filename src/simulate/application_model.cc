#include "simulate/application_model.h"

#include <cmath>
#include <vector>

#include "models/flops.h"
#include "models/miscounts.h"
#include "models/read.h"
#include "simulate/random.h"

namespace flopwatch::simulate {
namespace {

struct Family {
  std::string_view name;
  int min_gpus, max_gpus;
  std::string_view config;
};

constexpr std::string_view kLatentConfig =
    R"({"model_type":"qwen3_moe","hidden_size":4096,"num_hidden_layers":36,)"
    R"("num_attention_heads":32,"num_key_value_heads":4,)"
    R"("head_dim":128,"intermediate_size":8192,"moe_intermediate_size":2048,)"
    R"("moe_latent_size":576,"num_experts":256,)"
    R"("num_experts_per_tok":12,"vocab_size":100352})";
// 48 layers: 20 Mamba-2, 8 attention, 20 MLP.
constexpr std::string_view kHybridConfig =
    R"({"model_type":"nemotron_h","hidden_size":5120,"num_hidden_layers":48,)"
    R"("hybrid_override_pattern":"M-M-*-M-*-M-M-M-*-M-*-M-M-M-*-M-*-M-M-M-*-M-*-M-",)"
    R"("num_attention_heads":40,)"
    R"("num_key_value_heads":8,"head_dim":128,"ssm_state_size":128,"n_groups":8,)"
    R"("mamba_num_heads":160,"mamba_head_dim":64,)"
    R"("intermediate_size":20480,"vocab_size":100352})";

constexpr Family kFamilies[] = {
    {"dense-1b", 1, 64,
     R"({"model_type":"llama","hidden_size":2048,"num_hidden_layers":20,)"
     R"("num_attention_heads":16,"num_key_value_heads":4,)"
     R"("intermediate_size":6144,"vocab_size":100352})"},
    {"dense-7b", 8, 512,
     R"({"model_type":"llama","hidden_size":3840,"num_hidden_layers":34,)"
     R"("num_attention_heads":30,"num_key_value_heads":6,)"
     R"("intermediate_size":12288,"vocab_size":100352})"},
    {"dense-30b", 128, 8192,
     R"({"model_type":"llama","hidden_size":6656,"num_hidden_layers":56,)"
     R"("num_attention_heads":52,"num_key_value_heads":4,)"
     R"("intermediate_size":19456,"vocab_size":100352})"},
    {"dense-90b", 512, 1 << 20,
     R"({"model_type":"llama","hidden_size":9216,"num_hidden_layers":80,)"
     R"("num_attention_heads":72,"num_key_value_heads":8,)"
     R"("intermediate_size":27648,"vocab_size":100352})"},
    {"moe-28b", 16, 2048,
     R"({"model_type":"mixtral","hidden_size":3072,"num_hidden_layers":30,)"
     R"("num_attention_heads":24,"num_key_value_heads":6,)"
     R"("intermediate_size":8192,"num_local_experts":12,"num_experts_per_tok":2,)"
     R"("vocab_size":100352})"},
    {"moe-fine-28b", 16, 1 << 20,
     R"({"model_type":"qwen3_moe","hidden_size":2560,"num_hidden_layers":40,)"
     R"("num_attention_heads":32,"num_key_value_heads":4,)"
     R"("head_dim":128,"intermediate_size":8192,"moe_intermediate_size":896,"num_experts":96,)"
     R"("num_experts_per_tok":6,)"
     R"("vocab_size":100352})"},
    {"latent-moe-40b", 128, 1 << 20, kLatentConfig},
    {"hybrid-9b", 64, 4096, kHybridConfig}};

struct Way {
  std::string_view convention, version;
};
// Versions are the commits that models/conventions/ holds to.
constexpr Way kWays[] = {{"megatron", "d98e8a64"},
                         {"torchtitan", ""},
                         {"palm", ""},
                         {"kempnerforge", ""},
                         {"maxtext", ""}};
constexpr int64_t kLengths[] = {4096, 8192, 16384};

// Half a tile of 128 keys beyond the diagonal, and 7 matrix products where 6 are counted
// (docs/divergence.md, What a healthy job shows).
double HealthyRatio(const Counted& c) {
  const double a = c.attention / c.exact;
  return c.counted / c.exact /
         (kTilePadding * (1 + a / 6 + a * 128 / static_cast<double>(c.seq_len)));
}

bool Measure(const models::Model& model, Counted* out) {
  const models::Workload workload = models::Workload::Sequence(out->seq_len);
  const auto exact = models::ExactReference(model, workload);
  if (!exact.ok()) return false;
  out->exact = static_cast<double>(exact->training_flops_per_token);
  out->attention = static_cast<double>(exact->attention_core_training);
  return true;
}

struct Table {
  struct Row {
    Counted counted;
    int min_gpus, max_gpus;
  };
  std::vector<Row> right;
  Counted latent, hybrid;

  Table() {
    for (const Family& f : kFamilies) {
      const auto model = models::ReadModel(f.config, f.name);
      if (!model.ok()) continue;  // a test holds that all can be read
      for (const int64_t length : kLengths) {
        Counted c{.name = f.name, .config = f.config, .seq_len = length};
        if (!Measure(*model, &c)) continue;
        for (const Way& way : kWays) {
          const auto convention = models::FindConvention(way.convention);
          if (!convention.ok()) continue;
          const auto count = (*convention)->evaluate(*model, models::Workload::Sequence(length));
          if (!count.ok()) continue;
          const auto flops = count->TrainingPerToken();
          if (!flops.ok()) continue;
          c.convention = way.convention;
          c.version = way.version;
          c.counted = static_cast<double>(*flops);
          c.healthy_ratio = HealthyRatio(c);
          // Nobody reports by a formula that misses half of the model or sees it several times:
          // those are the errors below.
          if (c.counted > .9 * c.exact && c.counted < 1.5 * c.exact)
            right.push_back({c, f.min_gpus, f.max_gpus});
        }
      }
    }
    latent = Wrong("latent-moe-40b", kLatentConfig, 8192, LatentAtFullWidth(8192));
    hybrid = Wrong("hybrid-9b", kHybridConfig, 4096, HybridAsDense(4096));
  }

  // Both are by hand from the configurations above, so that the detector's candidates are not
  // checked against themselves. A weight costs 6 FLOPs a token; causal scores and values 6 x heads
  // x head size x (S + 1) a layer.
  static double LatentAtFullWidth(double s) {
    const double attention = 2.0 * 4096 * 32 * 128 + 2.0 * 4096 * 4 * 128, router = 4096.0 * 256;
    const double experts =
        12.0 * 3 * 4096 * 2048;  // at the hidden size where the latent size of 576 is right
    return 6 * (36 * (attention + router + experts) + 4096.0 * 100352) +
           36 * 6.0 * 32 * 128 * (s + 1);
  }
  static double HybridAsDense(double s) {
    const double attention = 2.0 * 5120 * 40 * 128 + 2.0 * 5120 * 8 * 128, mlp = 2.0 * 5120 * 20480;
    return 6 * (48 * (attention + mlp) + 5120.0 * 100352) + 48 * 6.0 * 40 * 128 * (s + 1);
  }

  static Counted Wrong(std::string_view name, std::string_view config, int64_t length,
                       double flops) {
    Counted c{.name = name,
              .config = config,
              .seq_len = length,
              .convention = "megatron",
              .counted = flops};
    const auto model = models::ReadModel(config, name);
    if (model.ok() && Measure(*model, &c)) c.healthy_ratio = HealthyRatio(c);
    return c;
  }
};

const Table& TheTable() {
  static const Table table;
  return table;
}

}  // namespace

const Counted& CountedRight(uint64_t key, int gpus, double ratio, int draws) {
  const Table& table = TheTable();
  std::vector<const Counted*> fitting;
  for (const Table::Row& row : table.right)
    if (gpus >= row.min_gpus && gpus <= row.max_gpus) fitting.push_back(&row.counted);
  const Counted* best = &table.right.front().counted;
  if (fitting.empty()) return *best;
  const auto far = [&](const Counted* c) { return std::abs(std::log(c->healthy_ratio / ratio)); };
  Draws random(key);
  for (int i = 0; i < draws; ++i) {
    const Counted* c = fitting[random.Below(static_cast<uint32_t>(fitting.size()))];
    if (i == 0 || far(c) < far(best)) best = c;
  }
  return *best;
}

const Counted& CountedWrong(Miscount miscount) {
  const Table& table = TheTable();
  return miscount == Miscount::kHybrid ? table.hybrid : table.latent;
}

std::string_view MiscountName(Miscount miscount) {
  static constexpr std::string_view kNames[] = {"", "latent_moe_full_width", "hybrid_as_dense"};
  static_assert(std::size(kNames) == static_cast<size_t>(Miscount::kHybrid) + 1);
  return kNames[static_cast<size_t>(miscount)];
}

}  // namespace flopwatch::simulate
