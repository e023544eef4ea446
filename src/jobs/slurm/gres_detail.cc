#include "jobs/slurm/gres_detail.h"

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "fmt/format.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxGresEntries = 256;
constexpr size_t kMaxGresNameBytes = 128;

bool AllDigits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

// "8", and with Slurm's suffix "32K".
std::optional<int64_t> GresCount(std::string_view text) {
  int64_t factor = 1;
  constexpr std::string_view kUnits = "KMGT";
  if (!text.empty()) {
    if (const size_t power = kUnits.find(text.back()); power != std::string_view::npos) {
      factor = int64_t{1} << (10 * (power + 1));
      text.remove_suffix(1);
    }
  }
  if (!AllDigits(text) || text.size() > 12) return std::nullopt;
  int64_t count = 0;
  std::from_chars(text.data(), text.data() + text.size(), count);
  return count > (int64_t{1} << 50) / factor ? std::nullopt : std::optional(count * factor);
}

// The indices in what stands between the parentheses: "S:0-1,IDX:0,2-3". "N/A" is none.
StatusOr<std::vector<int32_t>> IndicesInside(std::string_view inside) {
  const size_t at = inside.find("IDX:");
  if (at == std::string_view::npos) return std::vector<int32_t>();
  std::string_view list = inside.substr(at + 4);
  // Another key may follow: "IDX:0-1,S:0".
  if (const size_t key = list.find_first_of("SC"); key != std::string_view::npos)
    list = list.substr(0, key);
  while (!list.empty() && list.back() == ',') list.remove_suffix(1);
  if (list.empty() || list == "N/A") return std::vector<int32_t>();
  return ParseGpuIndices(list);
}

// "gpu", "gpu:8", "gpu:h100", "gpu:h100:8", "gpu:no_consume:4".
StatusOr<Gres> GresHead(std::string_view head) {
  Gres gres;
  const size_t colon = std::min(head.find(':'), head.size());
  if (const NameFault fault = FaultOfName(head, kMaxGresNameBytes); fault != NameFault::kNone)
    return InvalidArgument("'{}' {}", Printable(head, 60), NameFaultText(fault));
  gres.name = head.substr(0, colon);
  if (gres.name.empty() || head.find_first_of(" ()") != std::string_view::npos)
    return InvalidArgument("'{}' is no resource of a node", Printable(head, 60));
  head.remove_prefix(std::min(colon + 1, head.size()));
  const size_t last = head.rfind(':');
  const std::string_view tail = head.substr(last == std::string_view::npos ? 0 : last + 1);
  if (const std::optional<int64_t> count = GresCount(tail)) {
    gres.count = count;
    head = head.substr(0, last == std::string_view::npos ? 0 : last);
  }
  if (head != "no_consume") gres.type = head;
  return gres;
}

}  // namespace

StatusOr<std::vector<int32_t>> ParseGpuIndices(std::string_view text) {
  std::vector<int32_t> out;
  const auto bad = [&] {
    return InvalidArgument("'{}' is no list of GPU indices (0,1,4-7)", Printable(text, 60));
  };
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t comma = std::min(rest.find(','), rest.size());
    const std::string_view part = rest.substr(0, comma);
    rest.remove_prefix(std::min(comma + 1, rest.size()));
    const size_t dash = part.find('-');
    const std::string_view from = part.substr(0, dash);
    const std::string_view to = dash == std::string_view::npos ? from : part.substr(dash + 1);
    int32_t first = 0, last = 0;
    if (!AllDigits(from) || !AllDigits(to) || from.size() > 4 || to.size() > 4) return bad();
    std::from_chars(from.data(), from.data() + from.size(), first);
    std::from_chars(to.data(), to.data() + to.size(), last);
    if (last < first || last > kMaxGpuIndex || out.size() > static_cast<size_t>(kMaxGpuIndex) * 4)
      return bad();
    for (int32_t index = first; index <= last; ++index) out.push_back(index);
  }
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

StatusOr<std::vector<Gres>> ParseGres(std::string_view text) {
  std::vector<Gres> out;
  if (text == "(null)" || text == "N/A" || text == "none") return out;
  if (text.size() > kMaxGresBytes)
    return InvalidArgument("{} bytes of resources; at most {} are read", text.size(),
                           kMaxGresBytes);
  std::string_view rest = text;
  while (!rest.empty()) {
    const size_t stop = std::min(rest.find_first_of(",("), rest.size());
    FW_ASSIGN_OR_RETURN(Gres gres, GresHead(rest.substr(0, stop)));
    rest.remove_prefix(stop);
    if (rest.starts_with('(')) {
      const size_t close = rest.find(')');
      if (close == std::string_view::npos)
        return InvalidArgument("'{}': '(' without ')'", Printable(text, 60));
      FW_ASSIGN_OR_RETURN(gres.indices, IndicesInside(rest.substr(1, close - 1)));
      rest.remove_prefix(close + 1);
    }
    if (out.size() == kMaxGresEntries)
      return InvalidArgument("more than {} resources", kMaxGresEntries);
    out.push_back(std::move(gres));
    if (rest.empty()) break;
    if (!rest.starts_with(','))
      return InvalidArgument("'{}' has text after a resource", Printable(text, 60));
    rest.remove_prefix(1);
  }
  return out;
}

std::optional<int64_t> GpuCount(const std::vector<Gres>& gres) {
  std::optional<int64_t> sum;
  for (const Gres& g : gres)
    if (g.name == "gpu" && g.count) sum = sum.value_or(0) + *g.count;
  return sum;
}

std::vector<int32_t> GpuIndices(const std::vector<Gres>& gres) {
  std::vector<int32_t> out;
  for (const Gres& g : gres)
    if (g.name == "gpu") out.insert(out.end(), g.indices.begin(), g.indices.end());
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace flopwatch::slurm
