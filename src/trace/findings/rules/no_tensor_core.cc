// no-tensor-core (TensorBoard plugin's rule): on a device with tensor cores, matrix products and
// convolutions with FP32 inputs outside tensor-core kernels take more than a tenth of computing
// time, whatever else runs on tensor cores.
#include <fmt/format.h>

#include "trace/analysis/kernel_names.h"
#include "trace/findings/op_bytes.h"
#include "trace/findings/rules/rules.h"

namespace flopwatch::trace::rules {
namespace {

constexpr double kFp32Share = 0.10;                           // of computing time
constexpr double kEligibleShare = 0.20, kTensorShare = 0.05;  // for saying that nothing is known
constexpr int kFirstTf32 = 8;                                 // compute capability of Ampere
constexpr int kFirstTensorCores = 7;                          // compute capability of Volta
// Dense tensor-core rate over FP32 rate, of NVIDIA's data sheets: V100 125/15.7 (FP16), A100
// 156/19.5 (TF32), H100 SXM 495/67 (TF32).
constexpr double kSpeedUp = 8;
constexpr int kMaxParentsOfKernel = 64;  // of a kernel's operator that are looked at

enum class Inputs : uint8_t { kNotRead, kUnknown, kFp32, kOther };

Inputs InputsOf(std::string_view types) {
  bool fp32 = false;
  for (const std::string_view t : InputTypes(types)) {
    if (t == "c10::Half" || t == "c10::BFloat16" || t.starts_with("c10::Float8") ||
        t == "signed char" || t == "double")
      return Inputs::kOther;
    fp32 = fp32 || t == "float";
  }
  return fp32 ? Inputs::kFp32 : Inputs::kUnknown;
}

// The time of products and convolutions, and what of it is in FP32 without tensor cores.
struct Products {
  Nanos eligible = 0, with_tensor = 0, fp32 = 0;
  TopNames ops;
  Row longest = kNoRow;
  Intervals where;
};

Products ProductsOf(const RankMeasures& m) {
  const EventTable& e = m.events;
  Products p;
  NamePredicate product(m.names, IsProductKernel), tensor(m.names, IsTensorCoreKernel),
      fp32_name(m.names, IsFp32ProductKernel), op_test(m.names, IsTensorCoreOperator);
  std::vector<Inputs> known(m.names.size(), Inputs::kNotRead);  // by the text of the types
  for (const Row r : m.gpu) {
    if (m.ClassOf(r) != KernelClass::kCompute) continue;
    Row op = e.op[r];
    for (int i = 0; i < kMaxParentsOfKernel && op != kNoRow && !op_test(e.name[op]); ++i)
      op = e.parent[op];
    if (op != kNoRow && !op_test(e.name[op])) op = kNoRow;
    if (op == kNoRow && !product(e.name[r])) continue;
    p.eligible += e.dur[r];
    if (tensor(e.name[r])) {
      p.with_tensor += e.dur[r];
      continue;
    }
    Inputs inputs = Inputs::kUnknown;
    for (Row at : {e.op[r], op}) {
      if (inputs != Inputs::kUnknown || at == kNoRow) continue;
      const OpDetail* detail = m.rank.OpOf(at);
      if (detail == nullptr || detail->input_types == kNoName) continue;
      Inputs& k = known[detail->input_types];
      if (k == Inputs::kNotRead) k = InputsOf(m.names.Text(detail->input_types));
      inputs = k;
    }
    if (inputs == Inputs::kUnknown && fp32_name(e.name[r])) inputs = Inputs::kFp32;
    if (inputs != Inputs::kFp32) continue;
    p.fp32 += e.dur[r];
    p.where.push_back({e.ts[r], e.end(r)});
    p.ops.Add(op == kNoRow ? e.name[r] : e.name[op], e.dur[r]);
    if (p.longest == kNoRow || e.dur[r] > e.dur[p.longest]) p.longest = r;
  }
  return p;
}

}  // namespace

RankCheck NoTensorCore(const RankMeasures& m) {
  if (m.compute_sum == 0) return CannotCheck("no computing kernels in the trace");
  const bool has_tensor_cores =
      (m.device != nullptr && m.device->compute_major >= kFirstTensorCores) ||
      (m.accelerator != nullptr && m.accelerator->fp16_per_sm_clk.has_value());
  if (!has_tensor_cores) {
    if (m.device != nullptr && m.device->compute_major >= 0) return Nothing();
    return CannotCheck("the compute capability of the device is not known");
  }
  Products p = ProductsOf(m);
  const double eligible_share = static_cast<double>(p.eligible) / m.compute_sum;
  const double tensor_share = p.eligible > 0 ? static_cast<double>(p.with_tensor) / p.eligible : 0;
  const double fp32_share = static_cast<double>(p.fp32) / m.compute_sum;
  if (fp32_share <= kFp32Share) {
    // Neither shapes nor names say FP32: products in other types have other reasons.
    if (p.fp32 == 0 && eligible_share > kEligibleShare && tensor_share < kTensorShare)
      return CannotCheck(
          "the types of the products' inputs are neither recorded (record_shapes) nor in the "
          "kernels' names");
    return Nothing();
  }
  Finding f = FindingOf(
      m, fmt::format("{} of computing time is products and convolutions in FP32 without tensor "
                     "cores",
                     PercentText(fp32_share)));
  AddShare(&f, "eligible_share", eligible_share,
           fmt::format("products and convolutions take {} of computing time",
                       PercentText(eligible_share)));
  AddShare(&f, "tensor_core_share", tensor_share,
           fmt::format("{} of that in tensor-core kernels", PercentText(tensor_share)));
  AddTime(&f, "fp32_time_us", p.fp32, fmt::format("{} in FP32", DurationText(p.fp32)));
  const std::string device = m.device != nullptr ? m.device->name : "";
  AddText(&f, "device", device,
          fmt::format("on {}", device.empty() ? "a device with tensor cores" : device));
  f.top = p.ops.Texts(m.names);
  SetGain(&f, m, static_cast<Nanos>(static_cast<double>(p.fp32) * (1 - 1 / kSpeedUp)),
          "FP32 product time, if it ran at the tensor cores' rate, about eight times FP32's; "
          "memory limits it earlier");
  PointTo(&f, m, {m.events.ts[p.longest], m.events.end(p.longest)});
  const bool tf32 = m.device != nullptr && m.device->compute_major >= kFirstTf32;
  f.advice = fmt::format(
      "Use mixed precision (torch.autocast with {}float16){}; keep dimensions multiples of 8.",
      tf32 ? "bfloat16 or " : "",
      tf32 ? ", or allow TF32 (torch.set_float32_matmul_precision(\"high\"))" : "");
  f.source = "PyTorch TensorBoard plugin, tensor cores rule";
  return Found(std::move(f), Merge(std::move(p.where)), 1 - 1 / kSpeedUp);
}

}  // namespace flopwatch::trace::rules
