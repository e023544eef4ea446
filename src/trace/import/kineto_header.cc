#include "trace/import/kineto_header.h"

#include <algorithm>
#include <limits>
#include <string>

#include "base/json_read.h"
#include "base/text.h"
#include "trace/import/json_scan.h"

namespace flopwatch::trace {
namespace {

constexpr int kMaxHeaderDepth = 32;
constexpr ptrdiff_t kMaxName = 256;  // of a member that reading goes on at
constexpr std::string_view kEventsKey = "\"traceEvents\"";

void Count(KinetoLossCounts* losses, KinetoLoss loss) { ++(*losses)[static_cast<size_t>(loss)]; }

// The next line that starts with a member ("key":), or the member that holds the events wherever it
// is; `end` where there is none. Looks at every byte once.
const char* NextMember(const char* p, const char* end) {
  while (p < end) {
    const std::string_view rest(p, static_cast<size_t>(end - p));
    const size_t line_end = std::min(rest.find('\n'), rest.size());
    if (const size_t events = rest.substr(0, line_end).find(kEventsKey);
        events != std::string_view::npos)
      return p + events;
    const char* const member = SkipSpaces(p + line_end, end);
    if (member == end) return end;
    p = member;
    if (*p != '"') continue;
    const char* q = FindKeyEnd(p + 1, end);
    if (q == nullptr || q - member > kMaxName) continue;
    q = SkipSpaces(q + 1, end);
    if (q < end && *q == ':') return member;
  }
  return end;
}

Json ParseMember(std::string_view value, KinetoLossCounts* losses) {
  const JsonLimits limits = {
      .max_bytes = kMaxKinetoMember, .what = "a member of the trace", .python_constants = true};
  StatusOr<Json> json = Json::Parse(value, limits);
  if (json.ok()) return *std::move(json);
  json = Json::Parse(RepairJson(value), limits);
  Count(losses, json.ok() ? KinetoLoss::kMetadataRepaired : KinetoLoss::kMetadata);
  return json.ok() ? *std::move(json) : Json();
}

int32_t Small(const Json& json, int32_t fallback) {
  const std::optional<int64_t> value = json.integer();
  return value && *value >= std::numeric_limits<int32_t>::min() &&
                 *value <= std::numeric_limits<int32_t>::max()
             ? static_cast<int32_t>(*value)
             : fallback;
}

void ReadDevices(const Json& list, RankTrace* trace) {
  for (const Json& device : list.array()) {
    if (!device.is_object() || trace->devices.size() >= 1024) continue;
    trace->devices.push_back({.id = Small(device["id"], -1),
                              .name = device["name"].text(),
                              .sm_count = Small(device["numSms"], -1),
                              .compute_major = Small(device["computeMajor"], -1),
                              .compute_minor = Small(device["computeMinor"], -1),
                              .memory_bytes = device["totalGlobalMem"].integer_or(kUnknown)});
  }
}

// Ranks of a group: a list, or its text ("[0, 1]").
std::vector<int32_t> Ranks(const Json& json) {
  std::vector<int32_t> ranks;
  for (const Json& rank : json.array()) ranks.push_back(Small(rank, -1));
  if (!ranks.empty()) return ranks;
  const std::string text = json.text();
  for (size_t at = 0; at < text.size();) {
    if (text[at] < '0' || text[at] > '9') {
      if (text[at] == '.') return {};  // cut by the writer: "[0, 1, ...]"
      ++at;
      continue;
    }
    int64_t value = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9' && value < 1'000'000'000; ++at)
      value = value * 10 + (text[at] - '0');
    ranks.push_back(static_cast<int32_t>(value));
  }
  return ranks;
}

void ReadDistributed(const Json& info, RankTrace* trace) {
  if (const std::optional<int64_t> rank = info["rank"].integer();
      rank && *rank >= 0 && *rank <= std::numeric_limits<int32_t>::max()) {
    trace->rank = static_cast<int32_t>(*rank);
    trace->rank_known = true;
  }
  trace->world_size = info["world_size"].integer_or(trace->world_size);
  trace->backend = info["backend"].text();
  trace->nccl_version = info["nccl_version"].text();
  for (const Json& group : info["pg_config"].array()) {
    if (!group.is_object() || trace->process_groups.size() >= 100'000) continue;
    trace->process_groups.push_back({.name = group["pg_name"].text(),
                                     .description = group["pg_desc"].text(),
                                     .backend = group["backend_config"].text(),
                                     .size = group["pg_size"].integer_or(kUnknown),
                                     .ranks = Ranks(group["ranks"])});
  }
}

// The one number that matters, from a member that is no JSON.
void FindRank(std::string_view value, RankTrace* trace) {
  size_t at = value.find("\"rank\"");
  if (at == std::string_view::npos) return;
  for (at += 6; at < value.size() && (IsSpace(value[at]) || value[at] == ':'); ++at) {
  }
  size_t digits = at;
  while (digits < value.size() && value[digits] >= '0' && value[digits] <= '9') ++digits;
  int64_t rank = 0;
  if (digits > at && ParseInteger(value.substr(at, digits - at), &rank) && rank >= 0 &&
      rank <= std::numeric_limits<int32_t>::max()) {
    trace->rank = static_cast<int32_t>(rank);
    trace->rank_known = true;
  }
}

struct ScannedMember {
  std::string_view key, value;
  bool is_string = false, events = false;
};

// Moves `p` from the first byte of a value to behind its last.
ScanResult ScanValue(const char** p, const char* end, ScannedMember* member) {
  const char* begin = *p;
  const char* value_end = nullptr;
  member->is_string = *begin == '"';
  if (member->is_string) {
    uint32_t flags = 0;
    value_end = FindStringEnd(++begin, end, &flags);
    if (value_end == nullptr) return ScanResult::kCut;
    *p = value_end + 1;
  } else if (*begin == '{' || *begin == '[') {
    if (const auto r = SkipNested(p, end, kMaxHeaderDepth); r != ScanResult::kOk) return r;
    value_end = *p;
  } else {
    value_end = *p = SkipBare(begin, end);
    if (value_end == end) return ScanResult::kCut;
    while (value_end > begin && IsSpace(value_end[-1])) --value_end;
  }
  member->value = {begin, static_cast<size_t>(value_end - begin)};
  return ScanResult::kOk;
}

// Moves `p` behind a member, or to the [ of the events.
ScanResult ScanMember(const char** p, const char* end, bool last, ScannedMember* member) {
  if (**p != '"') return ScanResult::kBroken;
  uint32_t flags = 0;
  const char* const key = *p + 1;
  const char* const key_end = FindStringEnd(key, end, &flags);
  *p = key_end == nullptr ? end : SkipSpaces(key_end + 1, end);
  if (*p < end && **p == ':') *p = SkipSpaces(*p + 1, end);
  if (*p == end) return ScanResult::kCut;
  member->key = {key, static_cast<size_t>(key_end - key)};
  member->events = member->key == "traceEvents" && **p == '[';
  if (member->events) return ScanResult::kOk;
  if (const auto r = ScanValue(p, end, member); r != ScanResult::kOk) return r;
  *p = SkipSpaces(*p, end);
  if (*p == end) return last ? ScanResult::kOk : ScanResult::kCut;
  return **p == ',' || **p == '}' ? ScanResult::kOk : ScanResult::kBroken;
}

}  // namespace

void KinetoHeader::Member(std::string_view key, std::string_view value, bool is_string,
                          RankTrace* trace, KinetoLossCounts* losses) {
  const bool nested = !is_string && !value.empty() && (value[0] == '{' || value[0] == '[');
  const auto flag = [&] { return value == "1" || value == "true"; };
  if (key == "deviceProperties") return ReadDevices(ParseMember(value, losses), trace);
  if (key == "distributedInfo") {
    const Json info = ParseMember(value, losses);
    if (info.is_object()) return ReadDistributed(info, trace);
    return FindRank(value, trace);
  }
  if (key == "baseTimeNanoseconds") {
    int64_t base = 0;
    if (ParseInteger(value, &base))
      base_time_ = base;
    else
      Count(losses, KinetoLoss::kMetadata);
    return;
  }
  if (key == "record_shapes") trace->record_shapes = flag();
  if (key == "with_stack") trace->with_stack = flag();
  if (key == "with_flops") trace->with_flops = flag();
  if (key == "with_modules") trace->with_modules = flag();
  if (key == "profile_memory") trace->profile_memory = flag();
  if (nested || key.size() > kMaxKinetoMetadataText || value.size() > kMaxKinetoMetadataText ||
      trace->metadata.size() >= kMaxKinetoMetadata) {
    return;
  }
  std::string name, text(value);
  Unescape(key, &name);
  if (is_string) Unescape(value, &text);
  trace->metadata.emplace_back(std::move(name), std::move(text));
}

KinetoHeader::Read KinetoHeader::Parse(const char* p, const char* end, bool last, RankTrace* trace,
                                       KinetoLossCounts* losses) {
  if (!opened_) {
    if (!last && end - p < 4) return {Stop::kMore, p};
    p = WithoutByteOrderMark({p, static_cast<size_t>(end - p)}).data();
    p = SkipSpaces(p, end);
    if (p == end) return {last ? Stop::kNoTrace : Stop::kMore, p};
    if (*p != '{' && *p != '[') return {Stop::kNoTrace, p};
    opened_ = true;
    events_seen_ = list_ = *p++ == '[';
    if (list_) return {Stop::kEvents, p};
  }
  if (list_) return {Stop::kEnd, end};
  for (;;) {
    if (lost_) {
      const char* const member = NextMember(p, end);
      lost_ = member == end;
      if (lost_ && last) return {Stop::kEnd, end};
      // The name of a member may be cut.
      if (lost_) return {Stop::kMore, end - p > kMaxName * 2 ? end - kMaxName * 2 : p};
      p = member;
    }
    p = SkipSpaces(p, end);
    while (p < end && *p == ',') p = SkipSpaces(p + 1, end);
    if (p == end) return {last ? Stop::kEnd : Stop::kMore, p};
    if (*p == '}') return {Stop::kEnd, p + 1};
    const char* const start = p;
    ScannedMember member;
    const ScanResult result = ScanMember(&p, end, last, &member);
    if (result == ScanResult::kOk && member.events) {
      events_seen_ = true;
      return {Stop::kEvents, p + 1};
    }
    if (result == ScanResult::kOk) {
      Member(member.key, member.value, member.is_string, trace, losses);
      continue;
    }
    if (result == ScanResult::kCut && !last &&
        end - start < static_cast<ptrdiff_t>(kMaxKinetoMember))
      return {Stop::kMore, start};
    Count(losses, KinetoLoss::kMetadata);
    if (result == ScanResult::kCut && !last && ++long_members_ > kMaxKinetoLongMembers)
      return {Stop::kEnd, end};
    lost_ = true;
    p = start + 1;
  }
}

}  // namespace flopwatch::trace
