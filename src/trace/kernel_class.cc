#include "trace/kernel_class.h"

#include <algorithm>
#include <optional>

#include "absl/strings/ascii.h"
#include "trace/communication/family.h"

namespace flopwatch::trace {
namespace {

bool IsWordLetter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool Matches(std::string_view lower, const CommunicationName& n) {
  for (size_t at = lower.find(n.text); at != std::string_view::npos;
       at = lower.find(n.text, at + 1)) {
    if (n.match == NameMatch::kAnywhere || at == 0 || !IsWordLetter(lower[at - 1])) return true;
  }
  return false;
}

// The kernels that Inductor writes carry the names of the operators they fuse: a pointwise kernel
// after an all-reduce is "triton_poi_fused_add_all_reduce_4" and communicates nothing.
bool IsInductorKernel(std::string_view lower) {
  return lower.starts_with("triton_") && lower.find("_fused_") != std::string_view::npos;
}

// The function's own name: no return type, template arguments or parameters, which name types of
// other libraries.
std::string_view FunctionName(std::string_view lower) {
  if (lower.starts_with("void ")) lower.remove_prefix(5);
  // "(anonymous namespace)::" is a part of a path, no parameter list.
  size_t end = 0;
  for (; end < lower.size(); ++end) {
    if (lower[end] == '<') break;
    if (lower[end] != '(') continue;
    constexpr std::string_view kAnonymous = "(anonymous namespace)";
    if (!lower.substr(end).starts_with(kAnonymous)) break;
    end += kAnonymous.size() - 1;
  }
  return lower.substr(0, end);
}

// Words that speak of communication where no table knows the name.
std::optional<KernelKind> GuessOf(std::string_view lower) {
  const std::string_view name = FunctionName(lower);
  const auto has = [&](std::initializer_list<std::string_view> words) {
    return std::ranges::any_of(
        words, [&](std::string_view w) { return name.find(w) != std::string_view::npos; });
  };
  if (has({"all_reduce", "allreduce", "all_gather", "allgather", "all_to_all", "alltoall",
           "all2all", "reduce_scatter", "reducescatter", "sendrecv", "send_recv", "p2p_send",
           "p2p_recv"})) {
    return KernelKind{
        .is = has({"gemm", "matmul"}) ? KernelClass::kFused : KernelClass::kCommunication,
        .guessed = true};
  }
  // Split attention combines its parts on one GPU.
  if (has({"attn", "attention", "flash", "split", "fmha", "mla"})) return std::nullopt;
  if (has({"dispatch_kernel", "combine_kernel", "::dispatch", "::combine", "moe_dispatch",
           "moe_combine", "ep_dispatch", "ep_combine", "remote_", "peer_", "symm_mem", "shmem",
           "lamport"}))
    return KernelKind{.is = KernelClass::kCompute, .guessed = true};
  return std::nullopt;
}

}  // namespace

std::string_view KernelClassName(KernelClass c) {
  static constexpr std::string_view kNames[] = {"", "COMPUTATION", "COMMUNICATION", "MEMORY",
                                                "FUSED"};
  static_assert(std::size(kNames) == kKernelClasses);
  return kNames[static_cast<size_t>(c)];
}

std::string PlainKernelName(std::string_view name) {
  if (!name.starts_with("_ZN")) return std::string(name);
  std::string out;
  size_t at = 3;
  // Qualifiers of a member function.
  while (at < name.size() && (name[at] == 'K' || name[at] == 'V' || name[at] == 'L')) ++at;
  while (at < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[at]))) {
    size_t length = 0;
    while (at < name.size() && absl::ascii_isdigit(static_cast<unsigned char>(name[at])) &&
           length < name.size())
      length = 10 * length + static_cast<size_t>(name[at++] - '0');
    if (length == 0 || length > name.size() - at) break;
    if (!out.empty()) out += "::";
    out += name.substr(at, length);
    at += length;
  }
  return out.empty() ? std::string(name) : out;
}

KernelKind KindOfKernel(std::string_view name, const std::vector<std::string>& more) {
  const std::string lower = absl::AsciiStrToLower(PlainKernelName(name));
  for (const std::string& part : more)
    if (lower.find(absl::AsciiStrToLower(part)) != std::string::npos)
      return {.is = KernelClass::kCommunication};
  if (IsInductorKernel(lower)) return {};
  for (const CommunicationFamily* family : CommunicationFamilies()) {
    if (family->copies) continue;
    for (const CommunicationName& n : family->names)
      if (Matches(lower, n)) return {.is = n.is, .family = family};
  }
  return GuessOf(lower).value_or(KernelKind{});
}

bool IsCommunicationKernel(std::string_view name, const std::vector<std::string>& more) {
  return KindOfKernel(name, more).is == KernelClass::kCommunication;
}

bool IsPeerCopy(std::string_view name) {
  const std::string lower = absl::AsciiStrToLower(std::string(name));
  return std::ranges::any_of(CommunicationFamilies(), [&](const CommunicationFamily* family) {
    return family->copies && std::ranges::any_of(family->names, [&](const CommunicationName& n) {
             return Matches(lower, n);
           });
  });
}

TableVector<KernelClass> ClassifyRows(const StringPool& names, const RankTrace& rank,
                                      const std::vector<std::string>& more) {
  const EventTable& e = rank.events;
  TableVector<KernelClass> out(e.size(), KernelClass::kNone);
  // kNone = not judged yet. A kernel and a copy may have one name.
  TableVector<KernelClass> kernels(names.size(), KernelClass::kNone), copies = kernels;
  for (Row r = 0; r < e.size(); ++r) {
    if (e.category[r] == Category::kGpuMemcpy) {
      KernelClass& known = copies[e.name[r]];
      if (known == KernelClass::kNone)
        known =
            IsPeerCopy(names.Text(e.name[r])) ? KernelClass::kCommunication : KernelClass::kMemory;
      out[r] = known;
    } else if (e.category[r] == Category::kGpuMemset) {
      out[r] = KernelClass::kMemory;
    } else if (e.category[r] == Category::kKernel) {
      KernelClass& known = kernels[e.name[r]];
      if (known == KernelClass::kNone) known = KindOfKernel(names.Text(e.name[r]), more).is;
      out[r] = rank.CollectiveOf(r) != nullptr && known != KernelClass::kFused
                   ? KernelClass::kCommunication
                   : known;
    }
  }
  return out;
}

}  // namespace flopwatch::trace
