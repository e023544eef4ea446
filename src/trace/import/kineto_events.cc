#include "trace/import/kineto_events.h"

#include <algorithm>
#include <limits>

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxCategories = 256;
// How far a quote that should have been escaped is looked for.
constexpr ptrdiff_t kMaxExtendedText = 64 << 10;

bool IsSpace(char c) { return static_cast<unsigned char>(c) <= ' '; }

const char* SpacesBefore(const char* p, const char* begin) {
  while (p > begin && IsSpace(p[-1])) --p;
  return p;
}

// Whether `p` is where the events end: a bracket behind the last event, then the end of the file or a member of its header.
bool IsArrayEnd(const char* p, const char* begin, const char* end) {
  const char* const before = SpacesBefore(p, begin);
  if (before == begin || (before[-1] != '}' && before[-1] != ',')) return false;
  const char* next = SkipSpaces(p + 1, end);
  if (next == end) return true;
  if (*next == '}') return SkipSpaces(next + 1, end) == end;
  if (*next != ',') return false;
  next = SkipSpaces(next + 1, end);
  if (next == end || *next != '"') return false;
  const std::string_view rest(next + 1, static_cast<size_t>(end - next - 1));
  for (const std::string_view key :
       {"traceName\"", "displayTimeUnit\"", "baseTimeNanoseconds\"", "deviceProperties\"", "distributedInfo\"", "schemaVersion\"",
        "INFO\"", "WARNING\"", "ERROR\"", "trace_id\"", "with_", "record_shapes\"", "profile_memory\"", "metadata\"", "cupti_version\""}) {
    if (rest.starts_with(key)) return true;
  }
  return false;
}

// The next place at or behind `p` where, by the looks of it, an event starts or the events end: where reading goes on behind
// an event that is no JSON.
const char* NextEvent(const char* p, const char* end) {
  const char* const begin = p;
  for (; p < end; ++p) {
    if (*p == '{') {
      const char* const before = SpacesBefore(p, begin);
      if (before == begin || before[-1] != ',') continue;
      const char* const brace = SpacesBefore(before - 1, begin);
      if (brace == begin || brace[-1] != '}') continue;
      const char* const next = SkipSpaces(p + 1, end);
      if (next < end && *next == '"') return p;
    } else if (*p == ']' && IsArrayEnd(p, begin, end)) {
      return p;
    }
  }
  return end;
}

}  // namespace

KinetoEventParser::KinetoEventParser()
    : memory_name_(names_.Intern("[memory]")), forward_backward_name_(names_.Intern("fwdbwd")) {}

// ---- text to values

ScanResult KinetoEventParser::ReadValue(const char** at, const char* end, Value* value) {
  const char* p = *at;
  value->flags = 0;
  if (*p == '"') {
    value->begin = ++p;
    p = FindStringEnd(p, end, &value->flags);
    if (p == nullptr) return ScanResult::kCut;
    value->kind = Value::kString;
    value->end = p;
    *at = p + 1;
    return ScanResult::kOk;
  }
  value->begin = p;
  if (*p == '[' || *p == '{') {
    value->kind = Value::kNested;
    const ScanResult result = SkipNested(&p, end);
    value->end = *at = p;
    return result;
  }
  p = SkipBare(p, end);
  if (p == end) return ScanResult::kCut;
  *at = p;
  while (p > value->begin && IsSpace(p[-1])) --p;
  value->end = p;
  value->kind = p == value->begin ? Value::kEmpty : Value::kBare;
  return ScanResult::kOk;
}

// A string whose end is not followed by , or } holds a quote that should have been escaped: its real end is the next quote of
// the line that is.
bool KinetoEventParser::ExtendString(const char** at, const char* end, Value* value) {
  const char* p = *at;
  const char* const stop = end - p > kMaxExtendedText ? p + kMaxExtendedText : end;
  for (; p < stop && *p != '\n'; ++p) {
    if (*p == '\\') {
      value->flags |= kHasEscape;
      ++p;
      continue;
    }
    if (static_cast<unsigned char>(*p) >= 0x80) value->flags |= kHasNonAscii;
    if (*p != '"') continue;
    const char* const next = SkipSpaces(p + 1, end);
    if (next < end && (*next == ',' || *next == '}')) {
      value->end = p;
      *at = p + 1;
      batch_->Count(KinetoLoss::kUnescapedQuote);
      return true;
    }
  }
  return false;
}

// The members of the object that starts at `p`; on_member(key, value) each. An object as value of "args" is not read as a
// value: on_member gets where it starts.
template <typename OnMember>
ScanResult KinetoEventParser::ReadMembers(const char** at, const char* end, OnMember on_member) {
  const char* p = *at + 1;
  for (;;) {
    p = SkipSpaces(p, end);
    if (p == end) return ScanResult::kCut;
    if (*p == '}') break;
    if (*p == ',') {
      batch_->Count(KinetoLoss::kComma);
      ++p;
      continue;
    }
    if (*p != '"') return ScanResult::kBroken;
    uint32_t flags = 0;
    const char* const key_begin = ++p;
    p = FindStringEnd(p, end, &flags);
    if (p == nullptr) return ScanResult::kCut;
    const std::string_view key(key_begin, static_cast<size_t>(p - key_begin));
    p = SkipSpaces(p + 1, end);
    if (p == end) return ScanResult::kCut;
    if (*p != ':') return ScanResult::kBroken;
    p = SkipSpaces(p + 1, end);
    if (p == end) return ScanResult::kCut;
    Value value;
    if (const ScanResult result = on_member.Nested(key, &p); result == ScanResult::kBroken) {  // no object to be read as such
      if (const ScanResult read = ReadValue(&p, end, &value); read != ScanResult::kOk) return read;
    } else if (result != ScanResult::kOk) {
      return result;
    } else {
      value.kind = Value::kNested;
      value.begin = value.end = p;
    }
    p = SkipSpaces(p, end);
    if (p == end) return ScanResult::kCut;
    if (*p != ',' && *p != '}') {
      if (value.kind != Value::kString) return ScanResult::kBroken;
      if (*p == '"') {  // a comma is missing
        batch_->Count(KinetoLoss::kComma);
      } else {
        if (!ExtendString(&p, end, &value)) return ScanResult::kBroken;
        p = SkipSpaces(p, end);
      }
    }
    if (value.kind == Value::kEmpty || value.kind == Value::kBare) CountBare(value);
    if (value.begin != value.end || value.kind != Value::kNested) on_member.Value(key, value);
    if (*p == ',') {
      p = SkipSpaces(p + 1, end);
      if (p < end && *p == '}') batch_->Count(KinetoLoss::kComma);
    }
  }
  *at = p + 1;
  return ScanResult::kOk;
}

ScanResult KinetoEventParser::ReadEvent(const char** p, const char* end) {
  struct OnArg {
    KinetoEventParser* self;
    ScanResult Nested(std::string_view, const char**) { return ScanResult::kBroken; }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      const Arg arg = ArgOf(key);
      if (arg == Arg::kCount) return;
      self->args_[static_cast<size_t>(arg)] = value;
      self->seen_args_ |= uint64_t{1} << static_cast<int>(arg);
    }
  };
  struct OnKey {
    KinetoEventParser* self;
    const char* end;
    ScanResult Nested(std::string_view key, const char** p) {
      if (**p != '{' || key != "args") return ScanResult::kBroken;
      self->all_args_.begin = *p;
      const ScanResult result = self->ReadMembers(p, end, OnArg{self});
      self->all_args_.end = *p;
      self->all_args_.kind = KinetoEventParser::Value::kNested;
      // Broken inside: the event is. kBroken would ask for the object to be read as a value.
      return result == ScanResult::kBroken ? ScanResult::kDeep : result;
    }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      const EventKey known = EventKeyOf(key);
      if (known == EventKey::kCount) return;
      self->keys_[static_cast<size_t>(known)] = value;
      self->seen_keys_ |= 1u << static_cast<int>(known);
    }
  };
  seen_keys_ = 0;
  seen_args_ = 0;
  all_args_.begin = all_args_.end = nullptr;
  return ReadMembers(p, end, OnKey{this, end});
}

KinetoEventParser::Parsed KinetoEventParser::Parse(const char* p, const char* split, const char* end, bool last, KinetoBatch* batch) {
  batch_ = batch;
  batch->first_name = static_cast<NameId>(names_.size());
  batch->first_thread = static_cast<uint32_t>(threads_.size());
  bool comma = true;  // whether one came since the last event
  Parsed parsed{Stop::kCut, end};
  for (;;) {
    p = SkipSpaces(p, end);
    if (p == end) {
      parsed = {p >= split ? Stop::kSplit : Stop::kCut, p};
      break;
    }
    if (*p == ',') {
      if (comma && batch->entries > 0) batch->Count(KinetoLoss::kComma);
      comma = true;
      ++p;
      continue;
    }
    if (*p == ']') {
      if (comma && batch->entries > 0) batch->Count(KinetoLoss::kComma);
      parsed = {Stop::kArrayEnd, p + 1};
      break;
    }
    if (p >= split) {
      parsed = {Stop::kSplit, p};
      break;
    }
    const char* const start = p;
    ScanResult result = ScanResult::kBroken;
    const KinetoLossCounts before = batch->losses;
    if (*p == '{') {
      result = ReadEvent(&p, end);
    } else {
      Value value;
      result = ReadValue(&p, end, &value);
      if (result == ScanResult::kOk && (p == start || value.kind == Value::kEmpty)) result = ScanResult::kBroken;
      seen_keys_ = 0;
    }
    if (result == ScanResult::kOk) {
      if (!comma) batch->Count(KinetoLoss::kComma);
      comma = false;
      ++batch->entries;
      Store();
      continue;
    }
    batch->losses = before;  // of an event that is not kept, or read again
    if (result == ScanResult::kCut && !last) {
      parsed = {Stop::kCut, start};
      break;
    }
    p = NextEvent(start + 1, end);
    if (p == end) {
      batch->Count(result == ScanResult::kCut ? KinetoLoss::kCutTail : KinetoLoss::kMalformedEvent);
      parsed = {Stop::kCut, end};
      break;
    }
    batch->Count(KinetoLoss::kMalformedEvent);
    comma = true;
  }
  for (NameId id = batch->first_name; id < names_.size(); ++id) batch->names.push_back(names_.Text(id));
  batch->threads.assign(threads_.begin() + batch->first_thread, threads_.end());
  return parsed;
}

// ---- values to rows

NameId KinetoEventParser::Intern(std::string_view text) {
  if (names_.size() >= kMaxKinetoNames || names_.bytes() >= kMaxKinetoTextTotal) [[unlikely]] {
    const NameId id = names_.Find(text);
    if (id == kNoName && !text.empty()) batch_->Count(KinetoLoss::kTooManyNames);
    return id;
  }
  return names_.Intern(text);
}

NameId KinetoEventParser::Text(const Value& value) {
  const std::string_view text = value.text();
  if (text.size() > kMaxKinetoText) [[unlikely]] {
    batch_->Count(KinetoLoss::kTextCut);
    return kNoName;
  }
  if (value.flags == kPlainString) return Intern(text);
  const CleanText clean = Unescape(text, &scratch_);
  if (clean.bad_escape) batch_->Count(KinetoLoss::kBadEscape);
  if (clean.bad_utf8) batch_->Count(KinetoLoss::kBadUtf8);
  if ((value.flags & kHasControl) != 0) batch_->Count(KinetoLoss::kControlCharacter);
  return Intern(scratch_);
}

void KinetoEventParser::CountBare(const Value& value) {
  if (value.kind == Value::kEmpty) return batch_->Count(KinetoLoss::kEmptyValue);
  const std::string_view text = value.text();
  const auto digit = [&](size_t at) { return at < text.size() && text[at] >= '0' && text[at] <= '9'; };
  if (digit(0) || (text[0] == '-' && digit(1)) || text == "null" || text == "true" || text == "false") return;
  batch_->Count(KinetoLoss::kBareValue);
}

bool KinetoEventParser::Integer(const Value& value, int64_t* out) {
  return value.kind != Value::kNested && value.kind != Value::kEmpty && ParseInteger(value.text(), out);
}

int64_t KinetoEventParser::IntegerOr(Arg arg, int64_t fallback) {
  int64_t value = 0;
  return Has(arg) && Integer(ArgValue(arg), &value) ? value : fallback;
}

int32_t KinetoEventParser::SmallOr(Arg arg, int32_t fallback) {
  const int64_t value = IntegerOr(arg, fallback);
  return value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max() ? fallback
                                                                                                     : static_cast<int32_t>(value);
}

double KinetoEventParser::DoubleOr(Arg arg, double fallback) {
  if (!Has(arg)) return fallback;
  const Value& value = ArgValue(arg);
  double number = 0;
  return value.kind != Value::kNested && ParseDouble(value.text(), &number) ? number : fallback;
}

// "[512, 1, 1]"
void KinetoEventParser::Triple(Arg arg, int32_t out[3]) {
  if (!Has(arg)) return;
  const Value& value = ArgValue(arg);
  if (value.kind == Value::kEmpty || value.begin == value.end || (*value.begin != '[' && *value.begin != '(')) return;
  const char* p = value.begin + 1;
  for (int i = 0; i < 3; ++i) {
    p = SkipSpaces(p, value.end);
    int64_t number = 0;
    const char* const from = p;
    while (p < value.end && *p >= '0' && *p <= '9' && p - from < 10) number = number * 10 + (*p++ - '0');
    if (p == from || number > std::numeric_limits<int32_t>::max()) break;
    out[i] = static_cast<int32_t>(number);
    p = SkipSpaces(p, value.end);
    if (p < value.end && *p == ',') ++p;
  }
}

bool KinetoEventParser::Time(EventKey key, Nanos* out) {
  if (!Has(key)) return false;
  const Value& value = KeyValue(key);
  if (value.kind != Value::kBare && value.kind != Value::kString) return false;
  return ParseThousandths(value.text(), out);
}

const KinetoEventParser::CategoryEntry& KinetoEventParser::CategoryOf() {
  static const CategoryEntry kNone;
  if (!Has(EventKey::kCat)) return kNone;
  const std::string_view text = KeyValue(EventKey::kCat).text();
  if (last_category_ < categories_.size() && categories_[last_category_].text == text) return categories_[last_category_];
  for (size_t i = 0; i < categories_.size(); ++i) {
    if (categories_[i].text == text) {
      last_category_ = i;
      return categories_[i];
    }
  }
  if (categories_.size() >= kMaxCategories || text.size() > kMaxKinetoText) {
    batch_->Count(KinetoLoss::kTooManyNames);
    return kNone;
  }
  last_category_ = categories_.size();
  return categories_.emplace_back(CategoryEntry{std::string(text), KinetoCategoryOf(text), Text(KeyValue(EventKey::kCat))});
}

uint32_t KinetoEventParser::ThreadOf() {
  const auto part = [&](EventKey key, int64_t* number, NameId* text) {
    *number = kUnknown;
    *text = kNoName;
    if (!Has(key)) return;
    const Value& value = KeyValue(key);
    if (value.kind == Value::kBare) {
      ParseInteger(value.text(), number);
    } else if (value.kind == Value::kString && !ParseInteger(value.text(), number)) {
      *text = Text(value);
    }
  };
  ThreadKey key;
  part(EventKey::kPid, &key.pid, &key.pid_text);
  part(EventKey::kTid, &key.tid, &key.tid_text);
  if (!threads_.empty() && key == last_key_) return last_thread_;
  auto it = thread_ids_.find(key);
  if (it == thread_ids_.end()) {
    if (threads_.size() > kMaxKinetoThreads) {
      batch_->Count(KinetoLoss::kTooManyThreads);
      key = {kUnknown, kUnknown, Intern("(other)"), Intern("(other)")};
    }
    it = thread_ids_.try_emplace(key, static_cast<uint32_t>(threads_.size())).first;
    if (it->second == threads_.size()) {
      threads_.push_back({.pid = key.pid, .tid = key.tid, .pid_text = key.pid_text, .tid_text = key.tid_text});
    }
  }
  last_key_ = key;
  last_thread_ = it->second;
  return last_thread_;
}

bool KinetoEventParser::HasAny(std::initializer_list<Arg> args) const {
  uint64_t mask = 0;
  for (const Arg arg : args) mask |= uint64_t{1} << static_cast<int>(arg);
  return (seen_args_ & mask) != 0;
}

void KinetoEventParser::Store() {
  if (!Has(EventKey::kPh) || KeyValue(EventKey::kPh).text().size() != 1) return batch_->Count(KinetoLoss::kNotAnEvent);
  switch (KeyValue(EventKey::kPh).begin[0]) {
    case 'X': return StoreComplete();
    case 'i': case 'I': return StoreInstant();
    case 'C': return StoreCounter();
    case 's': return StoreFlow(true);
    case 'f': return StoreFlow(false);
    case 't': return;  // a middle of an arrow
    case 'M': return StoreLabel();
    case 'B': case 'E': return batch_->Count(KinetoLoss::kBeginEnd);
    default: return batch_->Count(KinetoLoss::kUnknownPhase);
  }
}

void KinetoEventParser::StoreComplete() {
  const CategoryEntry& category = CategoryOf();
  if (category.meaning.bookkeeping) return;
  Nanos ts = 0, dur = 0;
  if (!Time(EventKey::kTs, &ts)) return batch_->Count(KinetoLoss::kWithoutTime);
  if (!Time(EventKey::kDur, &dur)) {
    double number = 0;  // too large for nanoseconds: an overflow of the writer, not a missing number
    const bool overflow = Has(EventKey::kDur) && ParseDouble(KeyValue(EventKey::kDur).text(), &number) && number > 0;
    return batch_->Count(overflow ? KinetoLoss::kLongDuration : KinetoLoss::kWithoutDuration);
  }
  if (dur < 0) return batch_->Count(KinetoLoss::kNegativeDuration);
  if (dur > kMaxKinetoDuration) return batch_->Count(KinetoLoss::kLongDuration);

  const Category kind = category.meaning.category;
  EventTable& e = batch_->rows.events;
  const Row row = static_cast<Row>(e.size());
  int32_t stream = SmallOr(Arg::kStream, kNoStream);
  if (stream == kNoStream && IsGpuWork(kind) && Has(EventKey::kTid)) {  // the row of the stream
    int64_t tid = 0;
    if (Integer(KeyValue(EventKey::kTid), &tid) && tid >= 0 && tid <= std::numeric_limits<int32_t>::max()) stream = static_cast<int32_t>(tid);
  }
  uint32_t detail = kNoDetail;
  switch (kind) {
    case Category::kCpuOp: case Category::kUserAnnotation: detail = StoreOp(); break;
    case Category::kPythonFunction: detail = StorePython(); break;
    case Category::kKernel: detail = StoreKernel(); break;
    case Category::kGpuMemcpy: case Category::kGpuMemset: detail = StoreCopy(); break;
    case Category::kSync: detail = StoreSync(); break;
    case Category::kGpuCollective: detail = StoreCollective(); break;
    case Category::kProfilerRange: StoreRangeMetrics(row); break;
    default: break;
  }
  e.ts.push_back(ts);
  e.dur.push_back(dur);
  e.category.push_back(kind);
  e.name.push_back(Has(EventKey::kName) ? Text(KeyValue(EventKey::kName)) : kNoName);
  e.thread.push_back(ThreadOf());
  e.stream.push_back(stream);
  e.correlation.push_back(IntegerOr(Arg::kCorrelation, kNoId));
  const int64_t external = IntegerOr(Arg::kExternalId, kNoId);
  e.external_id.push_back(external == 0 ? kNoId : external);  // Kineto writes 0 where no operator was running
  e.detail.push_back(detail);
  e.file_category.push_back(category.name);
}

uint32_t KinetoEventParser::StoreCollective() {
  if (!HasAny({Arg::kCollectiveName, Arg::kGroupName, Arg::kInElements, Arg::kGroupRanks, Arg::kSeq})) return kNoDetail;
  CollectiveDetail c;
  c.collective = TextOf(Arg::kCollectiveName);
  c.dtype = TextOf(Arg::kDtype);
  c.group_name = TextOf(Arg::kGroupName);
  c.group_description = TextOf(Arg::kGroupDescription);
  c.group_ranks = TextOf(Arg::kGroupRanks);
  c.group_size = IntegerOr(Arg::kGroupSize, kUnknown);
  c.in_elements = IntegerOr(Arg::kInElements, kUnknown);
  c.out_elements = IntegerOr(Arg::kOutElements, kUnknown);
  c.sequence = IntegerOr(Arg::kSeq, kUnknown);
  c.communicator = IntegerOr(Arg::kCommsId, kUnknown);
  c.source_rank = SmallOr(Arg::kSourceRank, -1);
  c.destination_rank = SmallOr(Arg::kDestinationRank, -1);
  batch_->rows.collectives.push_back(c);
  return static_cast<uint32_t>(batch_->rows.collectives.size() - 1);
}

uint32_t KinetoEventParser::StoreKernel() {
  KernelDetail k;
  k.device = SmallOr(Arg::kDevice, -1);
  k.context = IntegerOr(Arg::kContext, kUnknown);
  Triple(Arg::kGrid, k.grid);
  Triple(Arg::kBlock, k.block);
  k.registers_per_thread = SmallOr(Arg::kRegisters, -1);
  k.shared_memory_bytes = IntegerOr(Arg::kSharedMemory, kUnknown);
  k.blocks_per_sm = DoubleOr(Arg::kBlocksPerSm, k.blocks_per_sm);
  k.warps_per_sm = DoubleOr(Arg::kWarpsPerSm, k.warps_per_sm);
  k.occupancy_pct = DoubleOr(Arg::kOccupancy, k.occupancy_pct);
  k.graph_id = IntegerOr(Arg::kGraphId, kUnknown);
  k.graph_node_id = IntegerOr(Arg::kGraphNodeId, kUnknown);
  k.collective = StoreCollective();
  batch_->rows.kernels.push_back(k);
  return static_cast<uint32_t>(batch_->rows.kernels.size() - 1);
}

uint32_t KinetoEventParser::StoreCopy() {
  CopyDetail c;
  c.device = SmallOr(Arg::kDevice, -1);
  c.bytes = IntegerOr(Has(Arg::kBytes) ? Arg::kBytes : Arg::kSize, kUnknown);
  c.bandwidth_gbps = DoubleOr(Arg::kBandwidth, c.bandwidth_gbps);
  batch_->rows.copies.push_back(c);
  return static_cast<uint32_t>(batch_->rows.copies.size() - 1);
}

uint32_t KinetoEventParser::StoreOp() {
  if (!HasAny({Arg::kInputDims, Arg::kInputTypes, Arg::kInputStrides, Arg::kConcreteInputs, Arg::kCallStack, Arg::kModuleHierarchy,
               Arg::kSequenceNumber, Arg::kForwardThread, Arg::kCollectiveName, Arg::kGroupName})) {
    return kNoDetail;
  }
  OpDetail o;
  o.input_dims = TextOf(Arg::kInputDims);
  o.input_types = TextOf(Arg::kInputTypes);
  o.input_strides = TextOf(Arg::kInputStrides);
  o.concrete_inputs = TextOf(Arg::kConcreteInputs);
  o.call_stack = TextOf(Arg::kCallStack);
  o.module_hierarchy = TextOf(Arg::kModuleHierarchy);
  o.sequence_number = IntegerOr(Arg::kSequenceNumber, kUnknown);
  o.forward_thread = IntegerOr(Arg::kForwardThread, kUnknown);
  o.collective = StoreCollective();
  batch_->rows.ops.push_back(o);
  return static_cast<uint32_t>(batch_->rows.ops.size() - 1);
}

uint32_t KinetoEventParser::StoreSync() {
  SyncDetail s;
  s.wait_on_stream = SmallOr(Arg::kWaitOnStream, kNoStream);
  s.wait_on_event_id = IntegerOr(Arg::kWaitOnEvent, kUnknown);
  s.wait_on_event_record_correlation = IntegerOr(Arg::kWaitOnRecord, kUnknown);
  batch_->rows.syncs.push_back(s);
  return static_cast<uint32_t>(batch_->rows.syncs.size() - 1);
}

uint32_t KinetoEventParser::StorePython() {
  if (!HasAny({Arg::kPythonId, Arg::kPythonParent, Arg::kPythonModule})) return kNoDetail;
  PythonDetail d;
  d.id = IntegerOr(Arg::kPythonId, kUnknown);
  d.parent_id = IntegerOr(Arg::kPythonParent, kUnknown);
  d.module_id = IntegerOr(Arg::kPythonModule, kUnknown);
  batch_->rows.python.push_back(d);
  return static_cast<uint32_t>(batch_->rows.python.size() - 1);
}

// One member of args a metric.
void KinetoEventParser::StoreRangeMetrics(Row row) {
  struct OnMetric {
    KinetoEventParser* self;
    Row row;
    ScanResult Nested(std::string_view, const char**) { return ScanResult::kBroken; }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      double number = 0;
      if (value.kind != KinetoEventParser::Value::kBare || key.size() > kMaxKinetoText || !ParseDouble(value.text(), &number)) return;
      self->batch_->rows.range_metrics.push_back({row, self->Intern(key), number});
    }
  };
  if (all_args_.begin == nullptr) return;
  const char* p = all_args_.begin;
  const KinetoLossCounts counted = batch_->losses;  // once, when the event was read
  ReadMembers(&p, all_args_.end, OnMetric{this, row});
  batch_->losses = counted;
}

void KinetoEventParser::StoreInstant() {
  const Value& name = KeyValue(EventKey::kName);
  if (!Has(EventKey::kName) || name.text() != "[memory]") {
    // Marks of the profiler about itself, one each a trace.
    if (Has(EventKey::kName) && (name.text().starts_with("Iteration Start") || name.text().starts_with("Record Window End"))) return;
    return batch_->Count(KinetoLoss::kInstant);
  }
  MemoryEvent m;
  if (!Time(EventKey::kTs, &m.ts)) return batch_->Count(KinetoLoss::kWithoutTime);
  m.bytes = IntegerOr(Arg::kMemoryBytes, 0);
  m.address = IntegerOr(Arg::kAddress, kUnknown);
  m.device_type = SmallOr(Arg::kDeviceType, -1);
  m.device = SmallOr(Arg::kDeviceId, -1);
  m.total_allocated = IntegerOr(Arg::kTotalAllocated, kUnknown);
  m.total_reserved = IntegerOr(Arg::kTotalReserved, kUnknown);
  batch_->rows.memory.push_back(m);
}

// One sample a member of args: "name" alone where the member is called value or as the counter itself, else "name member".
void KinetoEventParser::StoreCounter() {
  struct OnSample {
    KinetoEventParser* self;
    std::string_view counter;
    CounterSample sample;
    ScanResult Nested(std::string_view, const char**) { return ScanResult::kBroken; }
    void Value(std::string_view key, const KinetoEventParser::Value& value) {
      if (value.kind != KinetoEventParser::Value::kBare || key.size() > kMaxKinetoText || !ParseDouble(value.text(), &sample.value)) return;
      std::string name(counter);
      if (key != "value" && key != counter) name += (name.empty() ? "" : " ") + std::string(key);
      sample.counter = self->Intern(name);
      self->batch_->rows.counters.push_back(sample);
    }
  };
  OnSample on_sample{.self = this, .counter = {}, .sample = {}};
  if (!Time(EventKey::kTs, &on_sample.sample.ts)) return batch_->Count(KinetoLoss::kWithoutTime);
  std::string name;
  if (Has(EventKey::kName)) name = names_.Text(Text(KeyValue(EventKey::kName)));
  on_sample.counter = name;
  int64_t pid = -1;
  if (Has(EventKey::kPid) && KeyValue(EventKey::kPid).kind == Value::kBare && ParseInteger(KeyValue(EventKey::kPid).text(), &pid) &&
      pid >= 0 && pid < 1024) {
    on_sample.sample.device = static_cast<int32_t>(pid);  // GPU rows have the device as pid
  }
  if (all_args_.begin == nullptr) return;
  const char* p = all_args_.begin;
  const KinetoLossCounts counted = batch_->losses;
  ReadMembers(&p, all_args_.end, on_sample);
  batch_->losses = counted;
}

// Arrows from launch calls to GPU work say nothing that the correlation does not: only forward-backward ones are kept.
void KinetoEventParser::StoreFlow(bool start) {
  const CategoryEntry& category = CategoryOf();
  if (category.name != forward_backward_name_) return;
  KinetoBatch::Flow flow{.start = start};
  if (!Has(EventKey::kId) || !Integer(KeyValue(EventKey::kId), &flow.id) || !Time(EventKey::kTs, &flow.ts)) {
    return batch_->Count(KinetoLoss::kFlowWithoutOperator);
  }
  flow.thread = ThreadOf();
  batch_->flows.push_back(flow);
}

void KinetoEventParser::StoreLabel() {
  if (!Has(EventKey::kName)) return;
  const std::string_view name = KeyValue(EventKey::kName).text();
  KinetoBatch::Label label;
  if (name == "process_name") {
    label.kind = KinetoBatch::Label::kProcessName;
  } else if (name == "process_labels") {
    label.kind = KinetoBatch::Label::kProcessLabel;
  } else if (name == "thread_name") {
    label.kind = KinetoBatch::Label::kThreadName;
  } else {
    return;  // the order in which a viewer shows things
  }
  label.text = TextOf(label.kind == KinetoBatch::Label::kProcessLabel ? Arg::kLabels : Arg::kName);
  if (label.text == kNoName) return;
  label.thread = ThreadOf();
  batch_->labels.push_back(label);
}

}  // namespace flopwatch::trace
