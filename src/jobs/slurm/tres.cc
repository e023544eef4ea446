#include "jobs/slurm/tres.h"

#include <charconv>
#include <cmath>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr int64_t kMaxTresCount = int64_t{1} << 40;
constexpr size_t kMaxTypeBytes = 128;

bool IsDigit(char c) { return c >= '0' && c <= '9'; }

// Collects entries, then settles what typed and untyped ones mean together.
class TresBuilder {
 public:
  // `name` as in text: "cpu", "mem", "gres/gpu", "gres/gpu:h100". `count` absent = NO_VAL.
  Status Add(std::string_view name, std::optional<int64_t> count) {
    if (++entries_ > kMaxTresEntries)
      return InvalidArgument("more than {} resources", kMaxTresEntries);
    if (name == "cpu") return Set(name, count, &out_.cpus);
    if (name == "node") return Set(name, count, &out_.nodes);
    if (name == "mem") return Set(name, count, &out_.memory_bytes);
    if (name == "gres/gpu") return Set(name, count, &untyped_);
    if (name == "gres/shard") return Set(name, count, &out_.shards);
    if (name == "gres/mps") return Set(name, count, &out_.mps);
    constexpr std::string_view kTyped = "gres/gpu:", kTypedShard = "gres/shard:";
    if (name.starts_with(kTypedShard)) return AddTo(count, &typed_shards_);
    if (!name.starts_with(kTyped)) return absl::OkStatus();
    TypedCount typed;
    name.remove_prefix(kTyped.size());
    RepairText(name, kMaxTypeBytes, &typed.type);
    for (const TypedCount& known : out_.gpu_types) {
      if (known.type == typed.type)
        return InvalidArgument("gres/gpu:{} is named twice", Printable(typed.type, 40));
    }
    if (!count) return absl::OkStatus();
    typed.count = *count;
    out_.gpu_types.push_back(std::move(typed));
    return absl::OkStatus();
  }

  Tres Take() {
    int64_t sum = 0, mig = 0;
    for (const TypedCount& typed : out_.gpu_types) {
      sum += typed.count;
      if (IsMigType(typed.type)) mig += typed.count;
    }
    out_.gpus = untyped_;
    if (!untyped_ && !out_.gpu_types.empty()) out_.gpus = sum;
    if (mig > 0) out_.mig_instances = mig;
    if (!out_.shards) out_.shards = typed_shards_;
    return std::move(out_);
  }

 private:
  static Status Set(std::string_view name, std::optional<int64_t> count,
                    std::optional<int64_t>* out) {
    if (out->has_value()) return InvalidArgument("{} is named twice", name);
    *out = count;
    return absl::OkStatus();
  }
  static Status AddTo(std::optional<int64_t> count, std::optional<int64_t>* sum) {
    if (count) *sum = sum->value_or(0) + *count;
    return absl::OkStatus();
  }

  size_t entries_ = 0;
  std::optional<int64_t> untyped_, typed_shards_;
  Tres out_;
};

// "64", "62.50G", "2000M" with the unit in bytes for memory (a plain number there is MiB), a factor
// of 1024 elsewhere.
StatusOr<std::optional<int64_t>> TresCount(std::string_view text, bool memory) {
  const auto bad = [&] { return InvalidArgument("'{}' is no count", Printable(text, 40)); };
  if (text.empty() || !IsDigit(text.front())) return bad();
  uint64_t whole = 0;
  const char* end = text.data() + text.size();
  if (const auto [stop, error] = std::from_chars(text.data(), end, whole);
      error == std::errc() && stop == end && IsNoValue(whole))
    return std::optional<int64_t>();
  double number = 0;
  const auto [stop, error] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (error != std::errc()) return bad();
  std::string_view unit(stop, static_cast<size_t>(end - stop));
  if (memory && (unit.ends_with('c') || unit.ends_with('n'))) unit.remove_suffix(1);
  double factor = memory ? 1 << 20 : 1;
  if (!unit.empty()) {
    constexpr std::string_view kUnits = "KMGTPE";
    const size_t power = kUnits.find(unit.front());
    if (unit.size() > 1 || power == std::string_view::npos) return bad();
    factor = std::pow(1024.0, static_cast<double>(power + 1));
  }
  const double value = number * factor;
  if (!(value >= 0 && value < (memory ? 9e18 : static_cast<double>(kMaxTresCount)))) return bad();
  return std::optional<int64_t>(static_cast<int64_t>(std::llround(value)));
}

}  // namespace

bool IsNoValue(uint64_t value) {
  return value == 0xFFFFFFFEu || value == 0xFFFFFFFFu || value >= 0xFFFFFFFFFFFFFFFEu;
}

bool IsMigType(std::string_view type) {
  for (size_t g = type.find("g."); g != std::string_view::npos; g = type.find("g.", g + 1)) {
    size_t at = g + 2;
    while (at < type.size() && IsDigit(type[at])) ++at;
    if (g > 0 && IsDigit(type[g - 1]) && at > g + 2 &&
        StartsWithIgnoringCase(type.substr(at), "gb"))
      return true;
  }
  return false;
}

StatusOr<Tres> ParseTres(std::string_view text) {
  if (text == "(null)" || text == "N/A") return Tres{};
  if (text.size() > kMaxTresBytes) {
    return InvalidArgument("a list of resources of {} bytes; at most {} are read", text.size(),
                           kMaxTresBytes);
  }
  TresBuilder builder;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    const std::string_view entry = text.substr(0, comma);
    text.remove_prefix(std::min(comma + 1, text.size()));
    const size_t equals = entry.rfind('=');
    if (equals == std::string_view::npos || equals == 0)
      return InvalidArgument("'{}' is no resource=count", Printable(entry, 60));
    const std::string_view name = entry.substr(0, equals), value = entry.substr(equals + 1);
    const bool counted = name == "cpu" || name == "node" || name.starts_with("gres/");
    // Others (energy, billing, fs/disk, licences) mean nothing here and are not read.
    if (!counted && name != "mem") continue;
    StatusOr<std::optional<int64_t>> count = TresCount(value, name == "mem");
    if (!count.ok()) return Annotate(count.status(), Printable(name, 60));
    FW_RETURN_IF_ERROR(builder.Add(name, *count));
  }
  return builder.Take();
}

std::optional<int64_t> JsonCount(const Json& value) {
  const Json* number = &value;
  if (value.is_object()) {
    if (value["infinite"].boolean()) return std::nullopt;
    if (!value["set"].is_null() && !value["set"].boolean()) return std::nullopt;
    number = &value["number"];
  }
  const std::optional<int64_t> whole = number->integer();
  if (!whole || *whole < 0 || IsNoValue(static_cast<uint64_t>(*whole))) return std::nullopt;
  return whole;
}

StatusOr<Tres> ParseTresJson(const Json& list) {
  TresBuilder builder;
  for (const Json& entry : list.array()) {
    const std::string type = entry["type"].text(), name = entry["name"].text();
    std::optional<int64_t> count = JsonCount(entry["count"]);
    if (type == "mem" && count)  // MiB
      count = *count < (int64_t{1} << 43) ? std::optional(*count << 20) : std::nullopt;
    else if (count && *count > kMaxTresCount)
      count.reset();
    FW_RETURN_IF_ERROR(builder.Add(type == "gres" ? "gres/" + name : type, count));
  }
  return builder.Take();
}

}  // namespace flopwatch::slurm
