#include "trace/ops/attribution.h"

#include <algorithm>
#include <tuple>

#include "absl/container/flat_hash_map.h"
#include "efficiency/gemm/kernel_name.h"

namespace flopwatch::trace {
namespace {

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();
constexpr Row kNotWalked = kNoRow - 1;

class Attributor {
 public:
  Attributor(const StringPool& names, const RankTrace& rank,
             const TableVector<KernelClass>& classes)
      : names_(names), rank_(rank), e_(rank.events), classes_(classes) {}

  Attribution Run() {
    for (Row r = 0; r < e_.size(); ++r)
      if (e_.category[r] == Category::kKernel && classes_[r] == KernelClass::kCompute)
        open_.push_back(r);
    if (!rank_.flops_records.empty()) TakeRecorded();
    TakeDerived();
    return std::move(out_);
  }

 private:
  uint32_t Reason(std::string_view text) {
    const auto [it, added] =
        reason_ids_.try_emplace(std::string(text), static_cast<uint32_t>(out_.reasons.size()));
    if (added) out_.reasons.emplace_back(text);
    return it->second;
  }

  // Kernels of operators that start within a recorded range of their thread belong to the innermost
  // such range. (The rows of msprof-analyze's table are matched as it does, in msprof.cc; this is
  // the figure without its double counting.)
  void TakeRecorded() {
    struct Launch {
      uint32_t thread;
      Nanos at;
      Row kernel;
    };
    std::vector<Launch> launches;
    std::vector<Row> rest;
    for (const Row kernel : open_) {
      const Row op = e_.op[kernel];
      if (op == kNoRow)
        rest.push_back(kernel);
      else
        launches.push_back({e_.thread[op], e_.ts[op], kernel});
    }
    std::sort(launches.begin(), launches.end(), [](const Launch& a, const Launch& b) {
      return std::tie(a.thread, a.at, a.kernel) < std::tie(b.thread, b.at, b.kernel);
    });
    std::vector<uint32_t> records(rank_.flops_records.size());
    for (uint32_t i = 0; i < records.size(); ++i) records[i] = i;
    const auto& of = rank_.flops_records;
    std::stable_sort(records.begin(), records.end(), [&](uint32_t a, uint32_t b) {
      return std::tie(of[a].thread, of[a].begin) < std::tie(of[b].thread, of[b].begin);
    });
    std::vector<std::pair<uint32_t, Row>> taken;  // record, kernel
    std::vector<uint32_t> open;
    size_t next = 0;
    for (const Launch& launch : launches) {
      if (!open.empty() && of[open.back()].thread != launch.thread) open.clear();
      while (next < records.size() && std::tie(of[records[next]].thread, of[records[next]].begin) <=
                                          std::tie(launch.thread, launch.at)) {
        if (of[records[next]].thread == launch.thread) open.push_back(records[next]);
        ++next;
      }
      while (!open.empty() && of[open.back()].end < launch.at) open.pop_back();
      if (open.empty())
        rest.push_back(launch.kernel);
      else
        taken.emplace_back(open.back(), launch.kernel);
    }
    std::sort(taken.begin(), taken.end());
    absl::flat_hash_map<std::pair<NameId, int64_t>,
                        absl::flat_hash_map<std::pair<NameId, NameId>, uint32_t>>
        known;
    for (size_t i = 0; i < taken.size();) {
      const FlopsRecord& record = of[taken[i].first];
      CountedCall call{0, static_cast<uint32_t>(out_.kernels.size()), 0};
      Row main = taken[i].second;
      size_t j = i;
      for (; j < taken.size() && taken[j].first == taken[i].first; ++j) {
        out_.kernels.push_back(taken[j].second);
        if (e_.dur[taken[j].second] > e_.dur[main]) main = taken[j].second;
      }
      call.last = static_cast<uint32_t>(out_.kernels.size());
      const KernelDetail* const kernel = rank_.KernelOf(main);
      const NameId shapes = kernel == nullptr ? kNoName : kernel->input_shapes,
                   types = kernel == nullptr ? kNoName : kernel->input_types;
      const auto [it, added] = known[{record.op, record.flops}].try_emplace(
          {shapes, types}, static_cast<uint32_t>(out_.counted.size()));
      if (added) {
        Counted counted{.op = record.op,
                        .dims = shapes,
                        .types = types,
                        .rule = nullptr,
                        .flops = {},
                        .pay = PayOfKernelTypes(types)};
        counted.flops.low = counted.flops.high = record.flops;
        out_.counted.push_back(std::move(counted));
      }
      call.counted = it->second;
      out_.calls.push_back(call);
      i = j;
    }
    std::sort(rest.begin(), rest.end());
    open_ = std::move(rest);
  }

  // "FLOAT16;FLOAT16;FLOAT": the first two operands.
  Pay PayOfKernelTypes(NameId types) const {
    const std::string_view text = names_.Text(types);
    const size_t cut = text.find(';');
    const std::string_view rest =
        cut == std::string_view::npos ? std::string_view() : text.substr(cut + 1);
    return PayOfOperands(PayOfType(text.substr(0, cut)), PayOfType(rest.substr(0, rest.find(';'))));
  }

  const FlopsRule* RuleOf(Row op) {
    if (e_.category[op] != Category::kCpuOp) return nullptr;
    const NameId name = e_.name[op];
    if (rule_known_.empty()) {
      rule_known_.assign(names_.size(), false);
      rule_of_.assign(names_.size(), nullptr);
    }
    if (!rule_known_[name]) {
      rule_known_[name] = true;
      rule_of_[name] = FindFlopsRule(names_.Text(name));
    }
    return rule_of_[name];
  }

  // The lowest operator at or above `op` that has a rule.
  Row OwnerOf(Row op) {
    walked_.clear();
    Row owner = kNoRow;
    for (Row r = op; r != kNoRow; r = e_.parent[r]) {
      if (owner_[r] != kNotWalked) {
        owner = owner_[r];
        break;
      }
      walked_.push_back(r);
      if (RuleOf(r) != nullptr) {
        owner = r;
        break;
      }
    }
    for (const Row r : walked_) owner_[r] = owner;
    return owner;
  }

  // Whether the kernel's name says that it only prepares or reduces for another one.
  bool IsHelper(Row kernel) {
    const NameId name = e_.name[kernel];
    const auto [it, added] = helper_.try_emplace(name, false);
    if (added)
      it->second = efficiency::gemm::DecodeKernelName(names_.Text(name)).operation ==
                   efficiency::gemm::Operation::kHelper;
    return it->second;
  }

  bool FromGraph(Row kernel) const {
    const KernelDetail* const k = rank_.KernelOf(kernel);
    return k != nullptr && (k->graph_id > 0 || k->graph_node_id > 0);
  }

  void TakeDerived() {
    owner_.assign(e_.size(), kNotWalked);
    std::vector<std::pair<Row, Row>> owned;  // owner, kernel
    for (const Row kernel : open_) {
      const Row op = e_.op[kernel];
      const bool graph = FromGraph(kernel);
      const Row owner = op == kNoRow || graph ? kNoRow : OwnerOf(op);
      if (owner != kNoRow) {
        owned.emplace_back(owner, kernel);
        continue;
      }
      out_.uncounted.push_back(
          {kernel, Reason(graph ? "replayed from a graph: the operators it was captured from are "
                                  "not in the trace"
                          : op == kNoRow ? "no operator of the trace launched it"
                                         : "no rule: the operator is no known matrix product")});
    }
    std::sort(owned.begin(), owned.end());
    // An operator around a counted one is not counted again: its own kernels only move data for it.
    std::vector<bool> counted_below(e_.size(), false);
    for (size_t i = 0; i < owned.size(); ++i) {
      if (i > 0 && owned[i].first == owned[i - 1].first) continue;
      for (Row r = e_.parent[owned[i].first]; r != kNoRow && !counted_below[r]; r = e_.parent[r])
        counted_below[r] = true;
    }
    for (size_t i = 0; i < owned.size();) {
      size_t j = i;
      while (j < owned.size() && owned[j].first == owned[i].first) ++j;
      const Row owner = owned[i].first;
      std::string_view why;
      uint32_t counted = kNone;
      bool product = false;
      if (counted_below[owner]) {
        why = "moves data around a product that is counted";
      } else {
        const auto& [index, reason] = CountOf(owner);
        counted = index;
        why = reason == kNone ? std::string_view() : std::string_view(out_.reasons[reason]);
        product = index == kNone;
        // Where a profiler dropped the product itself, its FLOPs over what is left of it would be
        // absurd.
        const bool whole = std::any_of(owned.begin() + static_cast<ptrdiff_t>(i),
                                       owned.begin() + static_cast<ptrdiff_t>(j),
                                       [&](const auto& o) { return !IsHelper(o.second); });
        if (counted != kNone && !whole) {
          counted = kNone;
          why = "only helpers of the product are in the trace, not the product";
        }
      }
      if (counted == kNone) {
        const uint32_t reason = Reason(std::string(why));
        for (; i < j; ++i) out_.uncounted.push_back({owned[i].second, reason, product});
        continue;
      }
      CountedCall call{counted, static_cast<uint32_t>(out_.kernels.size()), 0};
      for (; i < j; ++i) out_.kernels.push_back(owned[i].second);
      call.last = static_cast<uint32_t>(out_.kernels.size());
      out_.calls.push_back(call);
    }
  }

  using Key = std::tuple<NameId, NameId, NameId, NameId, NameId, NameId>;

  // What the operator's texts come to, once a distinct set of texts: an index into counted, or a
  // reason.
  const std::pair<uint32_t, uint32_t>& CountOf(Row op) {
    const FlopsRule* const rule = RuleOf(op);
    static const OpDetail kNothing;
    const OpDetail* const detail = rank_.OpOf(op) == nullptr ? &kNothing : rank_.OpOf(op);
    const OpDetail* parent = nullptr;
    if (rule->needs_parent && e_.parent[op] != kNoRow) parent = rank_.OpOf(e_.parent[op]);
    const Key key{e_.name[op],
                  detail->input_dims,
                  detail->input_types,
                  detail->concrete_inputs,
                  parent == nullptr ? kNoName : parent->input_dims,
                  parent == nullptr ? kNoName : parent->concrete_inputs};
    const auto [it, added] = counts_.try_emplace(key, kNone, kNone);
    if (!added) return it->second;
    const auto refuse = [&](std::string_view why) -> const std::pair<uint32_t, uint32_t>& {
      it->second.second = Reason(why);
      return it->second;
    };
    if (detail->input_dims == kNoName)
      return refuse("sizes were not recorded (profile with record_shapes=True)");
    const auto parse = [&](const OpDetail& d) {
      return ParseOpInputs(names_.Text(d.input_dims), names_.Text(d.input_types),
                           names_.Text(d.concrete_inputs));
    };
    const StatusOr<OpInputs> inputs = parse(*detail);
    if (!inputs.ok())
      return refuse({inputs.status().message().data(), inputs.status().message().size()});
    std::optional<OpInputs> around;
    if (parent != nullptr) {
      StatusOr<OpInputs> parsed = parse(*parent);
      if (parsed.ok()) around = *std::move(parsed);
    }
    const StatusOr<FlopsCount> count = rule->count(*inputs, around ? &*around : nullptr);
    if (!count.ok())
      return refuse({count.status().message().data(), count.status().message().size()});
    const auto type_of = [&](int argument) {
      const std::string_view type =
          argument < 0 ? std::string_view() : inputs->type(static_cast<size_t>(argument));
      return std::pair(PayOfType(type), type);
    };
    const auto [a, type_a] = type_of(count->operand_a);
    const auto [b, type_b] = type_of(count->operand_b);
    if (type_a.find("omplex") != std::string_view::npos ||
        type_b.find("omplex") != std::string_view::npos) {
      return refuse("products of complex numbers have no rule");
    }
    // One operand of a type that is not known hides the rate.
    const Pay pay =
        (a == Pay::kUnknown && !type_a.empty()) || (b == Pay::kUnknown && !type_b.empty())
            ? Pay::kUnknown
            : PayOfOperands(a, b);
    it->second.first = static_cast<uint32_t>(out_.counted.size());
    out_.counted.push_back(
        {e_.name[op], detail->input_dims, detail->input_types, rule, *count, pay});
    return it->second;
  }

  const StringPool& names_;
  const RankTrace& rank_;
  const EventTable& e_;
  const TableVector<KernelClass>& classes_;
  Attribution out_;
  std::vector<Row> open_, owner_, walked_;
  std::vector<bool> rule_known_;
  std::vector<const FlopsRule*> rule_of_;
  absl::flat_hash_map<std::string, uint32_t> reason_ids_;
  absl::flat_hash_map<NameId, bool> helper_;
  absl::flat_hash_map<Key, std::pair<uint32_t, uint32_t>> counts_;
};

}  // namespace

Attribution Attribute(const StringPool& names, const RankTrace& rank,
                      const TableVector<KernelClass>& classes) {
  return Attributor(names, rank, classes).Run();
}

}  // namespace flopwatch::trace
