// The second half of the parser: the members of an event, found by kineto_events.cc, to rows and
// details.
#include <limits>
#include <string>
#include <string_view>

#include "trace/import/kineto_events.h"

namespace flopwatch::trace {
namespace {

constexpr size_t kMaxCategories = 256;

}  // namespace

bool KinetoEventParser::Number(const Member& member, double* out) {
  return member.value.kind == Value::kBare && member.key.size() <= kMaxKinetoText &&
         ParseDouble(member.value.text(), out);
}

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
  const auto digit = [&](size_t at) {
    return at < text.size() && text[at] >= '0' && text[at] <= '9';
  };
  if (digit(0) || (text[0] == '-' && digit(1)) || text == "null" || text == "true" ||
      text == "false")
    return;
  batch_->Count(KinetoLoss::kBareValue);
}

bool KinetoEventParser::Integer(const Value& value, int64_t* out) {
  return value.kind != Value::kNested && value.kind != Value::kEmpty &&
         ParseInteger(value.text(), out);
}

int64_t KinetoEventParser::IntegerOr(Arg arg, int64_t fallback) {
  int64_t value = 0;
  return Has(arg) && Integer(ArgValue(arg), &value) ? value : fallback;
}

int32_t KinetoEventParser::SmallOr(Arg arg, int32_t fallback) {
  const int64_t value = IntegerOr(arg, fallback);
  return value < std::numeric_limits<int32_t>::min() || value > std::numeric_limits<int32_t>::max()
             ? fallback
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
  if (value.kind == Value::kEmpty || value.begin == value.end ||
      (*value.begin != '[' && *value.begin != '('))
    return;
  const char* p = value.begin + 1;
  for (int i = 0; i < 3; ++i) {
    p = SkipSpaces(p, value.end);
    int64_t number = 0;
    const char* const from = p;
    while (p < value.end && *p >= '0' && *p <= '9' && p - from < 10)
      number = number * 10 + (*p++ - '0');
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
  if (last_category_ < categories_.size() && categories_[last_category_].text == text)
    return categories_[last_category_];
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
  const KinetoLossCounts counted =
      batch_->losses;  // every parser meets it once: not a property of the file
  const NameId name = Text(KeyValue(EventKey::kCat));
  batch_->losses = counted;
  return categories_.emplace_back(CategoryEntry{std::string(text), KinetoCategoryOf(text), name});
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
      threads_.push_back(
          {.pid = key.pid, .tid = key.tid, .pid_text = key.pid_text, .tid_text = key.tid_text});
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
  if (!Has(EventKey::kPh) || KeyValue(EventKey::kPh).text().size() != 1)
    return batch_->Count(KinetoLoss::kNotAnEvent);
  switch (KeyValue(EventKey::kPh).begin[0]) {
    case 'X':
      return StoreComplete();
    case 'i':
    case 'I':
      return StoreInstant();
    case 'C':
      return StoreCounter();
    case 's':
      return StoreFlow(true);
    case 'f':
      return StoreFlow(false);
    case 't':
      return;  // a middle of an arrow
    case 'M':
      return StoreLabel();
    case 'B':
    case 'E':
      return batch_->Count(KinetoLoss::kBeginEnd);
    default:
      return batch_->Count(KinetoLoss::kUnknownPhase);
  }
}

void KinetoEventParser::StoreComplete() {
  const CategoryEntry& category = CategoryOf();
  if (category.meaning.bookkeeping) return;
  Nanos ts = 0, dur = 0;
  if (!Time(EventKey::kTs, &ts)) return batch_->Count(KinetoLoss::kWithoutTime);
  if (!Time(EventKey::kDur, &dur)) {
    double number =
        0;  // too large for nanoseconds: an overflow of the writer, not a missing number
    const bool overflow =
        Has(EventKey::kDur) && ParseDouble(KeyValue(EventKey::kDur).text(), &number) && number > 0;
    return batch_->Count(overflow ? KinetoLoss::kLongDuration : KinetoLoss::kWithoutDuration);
  }
  if (dur < 0) return batch_->Count(KinetoLoss::kNegativeDuration);
  if (dur > kMaxKinetoDuration) return batch_->Count(KinetoLoss::kLongDuration);

  Category kind = category.meaning.category;
  if (kind == Category::kKernel && Has(EventKey::kName) &&
      IsDeviceWait(KeyValue(EventKey::kName).text()))
    kind = Category::kSync;
  EventTable& e = batch_->rows.events;
  const Row row = static_cast<Row>(e.size());
  int32_t stream = SmallOr(Arg::kStream, kNoStream);
  if (stream == kNoStream && IsGpuWork(kind) && Has(EventKey::kTid)) {  // the row of the stream
    int64_t tid = 0;
    if (Integer(KeyValue(EventKey::kTid), &tid) && tid >= 0 &&
        tid <= std::numeric_limits<int32_t>::max())
      stream = static_cast<int32_t>(tid);
  }
  uint32_t detail = kNoDetail;
  switch (kind) {
    case Category::kCpuOp:
    case Category::kUserAnnotation:
      detail = StoreOp();
      break;
    case Category::kPythonFunction:
      detail = StorePython();
      break;
    case Category::kKernel:
      detail = StoreKernel();
      break;
    case Category::kGpuMemcpy:
    case Category::kGpuMemset:
      detail = StoreCopy();
      break;
    case Category::kSync:
      detail = StoreSync();
      break;
    case Category::kGpuCollective:
      detail = StoreCollective();
      break;
    case Category::kProfilerRange:
      StoreRangeMetrics(row);
      break;
    default:
      break;
  }
  e.ts.push_back(ts);
  e.dur.push_back(dur);
  e.category.push_back(kind);
  e.name.push_back(Has(EventKey::kName) ? Text(KeyValue(EventKey::kName)) : kNoName);
  e.thread.push_back(ThreadOf());
  e.stream.push_back(stream);
  e.correlation.push_back(IntegerOr(Arg::kCorrelation, kNoId));
  const int64_t external = IntegerOr(Arg::kExternalId, kNoId);
  e.external_id.push_back(
      external == 0 ? kNoId : external);  // Kineto writes 0 where no operator was running
  e.detail.push_back(detail);
  e.file_category.push_back(category.name);
}

uint32_t KinetoEventParser::StoreCollective() {
  if (!HasAny(
          {Arg::kCollectiveName, Arg::kGroupName, Arg::kInElements, Arg::kGroupRanks, Arg::kSeq}))
    return kNoDetail;
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
  if (!HasAny({Arg::kInputDims, Arg::kInputTypes, Arg::kInputStrides, Arg::kConcreteInputs,
               Arg::kCallStack, Arg::kModuleHierarchy, Arg::kSequenceNumber, Arg::kForwardThread,
               Arg::kCollectiveName, Arg::kGroupName})) {
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
  for (const Member& member : AllArgs()) {
    double value = 0;
    if (Number(member, &value))
      batch_->rows.range_metrics.push_back({row, Intern(member.key), value});
  }
}

void KinetoEventParser::StoreInstant() {
  const Value& name = KeyValue(EventKey::kName);
  if (!Has(EventKey::kName) || name.text() != "[memory]") {
    // These are marks of the profiler about itself, one each a trace.
    if (Has(EventKey::kName) && (name.text().starts_with("Iteration Start") ||
                                 name.text().starts_with("Record Window End")))
      return;
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

// One sample a member of args: "name" alone where the member is called value or as the counter
// itself, else "name member".
void KinetoEventParser::StoreCounter() {
  CounterSample sample;
  if (!Time(EventKey::kTs, &sample.ts)) return batch_->Count(KinetoLoss::kWithoutTime);
  std::string counter;
  if (Has(EventKey::kName)) counter = names_.Text(Text(KeyValue(EventKey::kName)));
  int64_t pid = -1;
  if (Has(EventKey::kPid) && KeyValue(EventKey::kPid).kind == Value::kBare &&
      ParseInteger(KeyValue(EventKey::kPid).text(), &pid) && pid >= 0 && pid < 1024) {
    sample.device = static_cast<int32_t>(pid);  // GPU rows have the device as pid
  }
  for (const Member& member : AllArgs()) {
    if (!Number(member, &sample.value)) continue;
    std::string name = counter;
    if (member.key != "value" && member.key != counter)
      name += (name.empty() ? "" : " ") + std::string(member.key);
    sample.counter = Intern(name);
    batch_->rows.counters.push_back(sample);
  }
}

// Arrows from launch calls to GPU work say nothing that the correlation does not: only
// forward-backward ones are kept.
void KinetoEventParser::StoreFlow(bool start) {
  const CategoryEntry& category = CategoryOf();
  if (category.name != forward_backward_name_) return;
  KinetoBatch::Flow flow{.start = start};
  if (!Has(EventKey::kId) || !Integer(KeyValue(EventKey::kId), &flow.id) ||
      !Time(EventKey::kTs, &flow.ts)) {
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
