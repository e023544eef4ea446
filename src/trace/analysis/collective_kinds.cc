// What a collective is called and how many bytes it moves.
#include "trace/analysis/collectives.h"

#include <algorithm>

namespace flopwatch::trace {
namespace {

// Letters and digits only, lower case: "_allgather_base" and "AllGather" both contain "allgather".
std::string LettersAndDigits(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c >= 'A' && c <= 'Z') {
      out += static_cast<char>(c - 'A' + 'a');
    } else if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
      out += c;
    }
  }
  return out;
}

}  // namespace

std::string_view CollectiveKindName(CollectiveKind k) {
  static constexpr std::string_view kNames[] = {
      "all_reduce", "reduce_scatter", "all_gather", "all_to_all", "barrier", "broadcast",
      "reduce",     "gather",         "scatter",    "send_recv",  "unknown"};
  static_assert(std::size(kNames) == static_cast<size_t>(CollectiveKind::kUnknown) + 1);
  return kNames[static_cast<size_t>(k)];
}

CollectiveKind CollectiveKindOf(std::string_view name) {
  const std::string plain = LettersAndDigits(name);
  // The order matters: "reducescatter" contains "reduce" and "scatter".
  static constexpr std::pair<std::string_view, CollectiveKind> kMarks[] = {
      {"allreduce", CollectiveKind::kAllReduce},
      {"crossdevicereduce", CollectiveKind::kAllReduce},  // vLLM, SGLang
      {"reducescatter", CollectiveKind::kReduceScatter},
      {"allgather", CollectiveKind::kAllGather},
      {"alltoall", CollectiveKind::kAllToAll},
      {"barrier", CollectiveKind::kBarrier},
      {"broadcast", CollectiveKind::kBroadcast},
      {"sendrecv", CollectiveKind::kPointToPoint},
      {"gather", CollectiveKind::kGather},
      {"scatter", CollectiveKind::kScatter},
      {"send", CollectiveKind::kPointToPoint},
      {"recv", CollectiveKind::kPointToPoint},
      {"receive", CollectiveKind::kPointToPoint},
      {"reduce", CollectiveKind::kReduce}};
  for (const auto& [mark, kind] : kMarks)
    if (plain.find(mark) != std::string::npos) return kind;
  return CollectiveKind::kUnknown;
}

int64_t ElementBytes(std::string_view dtype) {
  std::string plain = LettersAndDigits(dtype);
  for (const std::string_view prefix : {"c10", "torch"})
    if (plain.starts_with(prefix)) plain.erase(0, prefix.size());
  // c10::toString (c10/core/ScalarType.h), numpy-like and HCCL names.
  static constexpr std::pair<std::string_view, int64_t> kTypes[] = {
      {"float", 4},         {"float32", 4},    {"fp32", 4},           {"double", 8},
      {"float64", 8},       {"fp64", 8},       {"half", 2},           {"float16", 2},
      {"fp16", 2},          {"bfloat16", 2},   {"bfp16", 2},          {"bf16", 2},
      {"float8e4m3fn", 1},  {"float8e5m2", 1}, {"float8e4m3fnuz", 1}, {"float8e5m2fnuz", 1},
      {"float8e8m0fnu", 1}, {"int", 4},        {"int32", 4},          {"uint32", 4},
      {"long", 8},          {"int64", 8},      {"uint64", 8},         {"short", 2},
      {"int16", 2},         {"uint16", 2},     {"char", 1},           {"int8", 1},
      {"byte", 1},          {"uint8", 1},      {"bool", 1},           {"complexfloat", 8},
      {"complexdouble", 16}};
  for (const auto& [name, bytes] : kTypes)
    if (plain == name) return bytes;
  return 0;
}

int64_t MessageBytes(const StringPool& names, const CollectiveDetail& c) {
  if (c.bytes != kUnknown) return c.bytes;
  const int64_t size = ElementBytes(names.Text(c.dtype)),
                elements = std::max(c.in_elements, c.out_elements);
  if (size == 0 || elements < 0 || elements > (int64_t{1} << 58)) return kUnknown;
  return size * elements;
}

std::optional<double> AlgorithmBandwidth(const Collective& c) {
  if (c.bytes == kUnknown || c.bytes <= 0 || c.min_duration <= 0) return std::nullopt;
  return static_cast<double>(c.bytes) / c.min_duration;  // bytes a nanosecond = GB/s
}

std::optional<double> BusBandwidth(const Collective& c, int64_t group_size) {
  const std::optional<double> algorithm = AlgorithmBandwidth(c);
  if (!algorithm || group_size < 2) return std::nullopt;
  const double n = static_cast<double>(group_size);
  using enum CollectiveKind;
  if (c.kind == kAllReduce) return *algorithm * 2 * (n - 1) / n;
  const bool own_part_stays = c.kind == kReduceScatter || c.kind == kAllGather ||
                              c.kind == kAllToAll || c.kind == kGather || c.kind == kScatter;
  return own_part_stays ? *algorithm * (n - 1) / n : *algorithm;
}

}  // namespace flopwatch::trace
