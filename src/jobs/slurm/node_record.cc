#include "jobs/slurm/node_record.h"

#include <algorithm>
#include <utility>

#include "base/text.h"
#include "fmt/format.h"
#include "fmt/ranges.h"

namespace flopwatch::slurm {
namespace {

constexpr size_t kMaxNodeStateBytes = 1024;

enum class WordKind : uint8_t { kBase, kFlag };
struct NodeWord {
  std::string_view written;
  std::string_view name;  // the full word
  WordKind kind;
  Schedulable says;  // kUnknown = nothing about it
};

constexpr auto kIn = Schedulable::kYes;
constexpr auto kOut = Schedulable::kNo;
constexpr auto kMute = Schedulable::kUnknown;

// Base states first. Short forms are those of sinfo's %t.
constexpr NodeWord kNodeWords[] = {
    {"IDLE", "IDLE", WordKind::kBase, kIn},
    {"MIXED", "MIXED", WordKind::kBase, kIn},
    {"MIX", "MIXED", WordKind::kBase, kIn},
    {"ALLOCATED", "ALLOCATED", WordKind::kBase, kIn},
    {"ALLOC", "ALLOCATED", WordKind::kBase, kIn},
    {"COMPLETING", "COMPLETING", WordKind::kFlag, kIn},
    {"COMP", "COMPLETING", WordKind::kFlag, kIn},
    {"DOWN", "DOWN", WordKind::kBase, kOut},
    {"ERROR", "ERROR", WordKind::kBase, kOut},
    {"FUTURE", "FUTURE", WordKind::kBase, kOut},
    {"FUTR", "FUTURE", WordKind::kBase, kOut},
    {"UNKNOWN", "UNKNOWN", WordKind::kBase, kMute},
    {"UNK", "UNKNOWN", WordKind::kBase, kMute},
    {"DRAIN", "DRAIN", WordKind::kFlag, kOut},
    {"FAIL", "FAIL", WordKind::kFlag, kOut},
    {"FAILING", "FAIL", WordKind::kFlag, kOut},
    {"FAILG", "FAIL", WordKind::kFlag, kOut},
    {"MAINT", "MAINT", WordKind::kFlag, kOut},
    {"MAINTENANCE", "MAINT", WordKind::kFlag, kOut},
    {"NOT_RESPONDING", "NOT_RESPONDING", WordKind::kFlag, kOut},
    {"NO_RESPOND", "NOT_RESPONDING", WordKind::kFlag, kOut},
    {"POWERED_DOWN", "POWERED_DOWN", WordKind::kFlag, kOut},
    {"POWER_DOWN", "POWERING_DOWN", WordKind::kFlag, kOut},
    {"POWERING_DOWN", "POWERING_DOWN", WordKind::kFlag, kOut},
    {"POW_DN", "POWERING_DOWN", WordKind::kFlag, kOut},
    {"INVALID", "INVALID", WordKind::kFlag, kOut},
    {"INVALID_REG", "INVALID", WordKind::kFlag, kOut},
    {"INVAL", "INVALID", WordKind::kFlag, kOut},
    {"BLOCKED", "BLOCKED", WordKind::kFlag, kMute},
    {"POWERING_UP", "POWERING_UP", WordKind::kFlag, kMute},
    {"POWER_UP", "POWERING_UP", WordKind::kFlag, kMute},
    {"POW_UP", "POWERING_UP", WordKind::kFlag, kMute},
    {"POWER_DRAIN", "POWER_DRAIN", WordKind::kFlag, kMute},
    {"RESERVED", "RESERVED", WordKind::kFlag, kIn},
    {"RESV", "RESERVED", WordKind::kFlag, kIn},
    {"PLANNED", "PLANNED", WordKind::kFlag, kIn},
    {"PLND", "PLANNED", WordKind::kFlag, kIn},
    {"PERFCTRS", "PERFCTRS", WordKind::kFlag, kMute},
    {"NPC", "PERFCTRS", WordKind::kFlag, kMute},
    {"REBOOT", "REBOOT_REQUESTED", WordKind::kFlag, kMute},
    {"REBOOT_REQUESTED", "REBOOT_REQUESTED", WordKind::kFlag, kMute},
    {"BOOT", "REBOOT_ISSUED", WordKind::kFlag, kMute},
    {"REBOOT_ISSUED", "REBOOT_ISSUED", WordKind::kFlag, kMute},
    {"CLOUD", "CLOUD", WordKind::kFlag, kMute},
    {"DYNAMIC_NORM", "DYNAMIC_NORM", WordKind::kFlag, kMute},
    {"DYNAMIC_FUTURE", "DYNAMIC_FUTURE", WordKind::kFlag, kMute},
    {"EXTERNAL", "EXTERNAL", WordKind::kFlag, kMute},
    {"RESUME", "RESUME", WordKind::kFlag, kMute},
    {"UNDRAIN", "UNDRAIN", WordKind::kFlag, kMute},
};

// Words of sinfo that stand for two.
constexpr std::pair<std::string_view, std::string_view> kTwoWords[] = {
    {"DRAINED", "DRAIN+IDLE"},
    {"DRAINING", "DRAIN+ALLOCATED"},
    {"DRNG", "DRAIN+ALLOCATED"},
};

constexpr std::pair<char, std::string_view> kStateSuffixes[] = {
    {'*', "NOT_RESPONDING"},   {'~', "POWERED_DOWN"},  {'#', "POWERING_UP"},
    {'!', "POWER_DRAIN"},      {'%', "POWERING_DOWN"}, {'$', "MAINT"},
    {'@', "REBOOT_REQUESTED"}, {'^', "REBOOT_ISSUED"}, {'-', "PLANNED"},
};

struct NodeStateBuilder {
  NodeState state;
  bool in = false, strange = false;
  std::vector<std::string_view> why;

  void AddWord(std::string_view word) {
    for (const auto& [two, words] : kTwoWords) {
      if (!EqualsIgnoringCase(word, two)) continue;
      AddWords(words);
      return;
    }
    for (const NodeWord& known : kNodeWords) {
      if (EqualsIgnoringCase(word, known.written)) return Add(known);
    }
    strange = true;
    std::string text;
    RepairText(word, 64, &text);
    if (!state.Has(text)) state.flags.push_back(std::move(text));
  }

  void Add(const NodeWord& word) {
    if (word.kind == WordKind::kBase && state.base.empty()) {
      state.base = word.name;
    } else if (word.kind == WordKind::kFlag && !state.Has(word.name)) {
      state.flags.emplace_back(word.name);
    }
    if (word.says == kIn) in = true;
    if (word.says == kOut && std::find(why.begin(), why.end(), word.name) == why.end())
      why.push_back(word.name);
  }

  void AddWords(std::string_view text) {
    constexpr std::string_view kBreaks = "+, ";
    for (size_t at = 0; at < text.size();) {
      const size_t stop = std::min(text.find_first_of(kBreaks, at), text.size());
      std::string_view word = text.substr(at, stop - at);
      at = stop + 1;
      std::vector<std::string_view> suffixes;
      while (!word.empty()) {
        const auto* const suffix =
            std::find_if(std::begin(kStateSuffixes), std::end(kStateSuffixes),
                         [&](const auto& entry) { return entry.first == word.back(); });
        if (suffix == std::end(kStateSuffixes)) break;
        suffixes.push_back(suffix->second);
        word.remove_suffix(1);
      }
      if (!word.empty()) AddWord(word);
      for (const std::string_view name : suffixes) AddWord(name);
    }
  }
};

}  // namespace

std::string_view SchedulableName(Schedulable s) {
  return s == Schedulable::kYes ? "yes" : s == Schedulable::kNo ? "no" : "unknown";
}

bool NodeState::Has(std::string_view flag) const {
  return std::find(flags.begin(), flags.end(), flag) != flags.end();
}

NodeState ParseNodeState(std::string_view text) {
  NodeStateBuilder builder;
  builder.AddWords(CutUtf8(text, kMaxNodeStateBytes));
  NodeState& state = builder.state;
  if (!builder.why.empty()) {
    state.schedulable = Schedulable::kNo;
    state.why = fmt::format("{}", fmt::join(builder.why, ", "));
  } else if (builder.in && !builder.strange && text.size() <= kMaxNodeStateBytes) {
    state.schedulable = Schedulable::kYes;
  }
  return std::move(builder.state);
}

void SettleGpus(const Tres& configured, const Tres& allocated, NodeRecord* node) {
  node->gpus = GpuCount(node->gres);
  if (!node->gpus) node->gpus = configured.gpus;
  node->allocated_gpus = GpuCount(node->gres_used);
  if (!node->allocated_gpus) node->allocated_gpus = allocated.gpus;
}

}  // namespace flopwatch::slurm
