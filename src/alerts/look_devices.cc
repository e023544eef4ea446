#include "alerts/look_devices.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

#include "alerts/median.h"
#include "base/prefetch.h"

// Of what is done to each of 100,000 GPUs: to call it costs a tenth of it.
#define FW_IN_PLACE [[gnu::always_inline]] inline

namespace flopwatch::alerts {
namespace {

using ingest::GpuNow;

// Of a GPU beside its job's others by one reading.
constexpr float kMostStep = 0.2F;
constexpr Micros kOneScrape = 10 * kMicrosPerSecond;  // samples of one exporter's GPUs
constexpr size_t kBlock = 256;  // rows at once: their columns stay in a near cache
constexpr size_t kAhead = 8;    // rows whose boards are asked for
// Job sets that nobody has any more are kept until there are so many, and an eighth of all.
constexpr std::ptrdiff_t kMostGone = 64;

constexpr Quantity kErrorQuantities[] = {Quantity::kGpuEccNew, Quantity::kGpuRowRemaps,
                                         Quantity::kGpuNvlinkErrors, Quantity::kGpuPcieReplays};
constexpr std::array<Quantity, DeviceLook::kCompared> kBesidePeers = {
    Quantity::kGpuClockToJob, Quantity::kGpuPowerToJob, Quantity::kGpuDutyToJob,
    Quantity::kGpuOfuToJob};

DeviceLook::Four ComparedOf(const GpuNow& gpu) {
  return DeviceLook::Four{static_cast<float>(gpu.sm_clock_mhz), static_cast<float>(gpu.power_w),
                          static_cast<float>(gpu.gpu_util), static_cast<float>(gpu.ofu)};
}

// Of one that is not known and another the other. (std::fmax() is a call.)
double Larger(double a, double b) { return a > b || std::isnan(b) ? a : b; }

// What a board says; below 0 it says nothing.
double Told(int64_t value) { return value < 0 ? kNotKnown : static_cast<double>(value); }

int32_t AtMostInt32(int64_t value) {
  return static_cast<int32_t>(std::min<int64_t>(value, std::numeric_limits<int32_t>::max()));
}

// The rules that find a value of a GPU wrong which is there all the same.
struct Wrong {
  uint32_t tensor = 0, sm_active = 0, duty = 0, power = 0, clock = 0;
};
const Wrong& WrongBy() {
  static const Wrong wrong = [] {
    Wrong out;
    for (const efficiency::CounterRule& rule : efficiency::CounterRules()) {
      using enum efficiency::CounterFault;
      if (rule.fault == kMissing || rule.fault == kRenamed || rule.fault == kUndecided) continue;
      const uint32_t bit = 1u << static_cast<unsigned>(rule.id);
      const auto of = [&](std::string_view counter, uint32_t* mask) {
        if (rule.counter.empty() || rule.counter == counter) *mask |= bit;
      };
      of("tensor_active", &out.tensor);
      of("sm_active", &out.sm_active);
      of("gpu_util", &out.duty);
      of("power_w", &out.power);
      of("sm_clock_mhz", &out.clock);
    }
    return out;
  }();
  return wrong;
}

// Nobody is accused by a counter that cannot be believed: its value is not known.
void LeaveOutWrong(GpuNow* gpu) {
  const uint32_t found = gpu->counters.found;
  const Wrong& wrong = WrongBy();
  if ((found & wrong.tensor) != 0) gpu->tensor_active = kNotKnown;
  if ((found & wrong.sm_active) != 0) gpu->sm_active = kNotKnown;
  if ((found & wrong.duty) != 0) gpu->gpu_util = kNotKnown;
  if ((found & wrong.power) != 0) gpu->power_w = kNotKnown;
  if ((found & wrong.clock) != 0) gpu->sm_clock_mhz = kNotKnown;
  if ((found & (wrong.tensor | wrong.clock)) != 0) gpu->ofu = kNotKnown;
}

}  // namespace

// A row of a block. What nobody wants goes to a place that nobody reads: cheaper than to ask each
// time.
class DeviceLook::Cells {
 public:
  explicit Cells(Subjects* block) {
    for (size_t q = 0; q < kQuantityCount; ++q) {
      std::vector<double>& column = block->columns[q];
      columns_[q] = column.empty() ? nowhere_.data() : column.data();
    }
  }
  Cells(const Cells&) = delete;
  void operator=(const Cells&) = delete;
  void Go(size_t row) { row_ = row; }
  void Set(Quantity q, double value) const { columns_[static_cast<size_t>(q)][row_] = value; }
  // All but what a silent GPU has too: its age, and who holds it.
  void ForgetFreshOnes() const {
    for (const QuantitySpec& spec : Quantities())
      if (spec.scope == Scope::kGpu && spec.quantity != Quantity::kGpuAge &&
          spec.quantity != Quantity::kGpuAllocated && spec.quantity != Quantity::kGpuJobs)
        Set(spec.quantity, kNotKnown);
  }

 private:
  std::array<double*, kQuantityCount> columns_;
  std::array<double, kBlock> nowhere_;
  size_t row_ = 0;
};

void DeviceLook::PrefetchBoard(int32_t entity) const {
  const auto at = static_cast<size_t>(entity);
  if (at < boards_.size()) PrefetchToWrite(&boards_[at], sizeof(Board));
}

DeviceLook::Board& DeviceLook::NewBoard(int32_t entity) {
  const auto at = static_cast<size_t>(entity);
  if (at >= boards_.size()) {
    boards_.resize(at + 1);
    stories_.resize(at + 1);
  }
  Board& board = boards_[at];
  const auto record = memory_.registry().entity(entity);
  const std::string uuid = record ? record->key.uuid : std::string();
  board.key = SubjectKey(record && record->key.gpu_instance >= 0
                             ? "gpu instance " + std::to_string(record->key.gpu_instance)
                             : "gpu",
                         uuid);
  if (const auto seen = xids_.find(uuid); seen != xids_.end()) {
    board.xid = seen->second.xid;
    board.xid_errors = AtMostInt32(seen->second.errors);
  }
  return board;
}

// Names of nodes are compared once, not in every round.
void DeviceLook::NameNodes() {
  const uint64_t version = memory_.registry().version();
  if (nodes_version_ == version) return;
  nodes_version_ = version;
  nodes_.clear();
  node_keys_.clear();
  node_of_.clear();
  same_place_.clear();
  absl::flat_hash_map<std::string, int32_t> known;
  absl::flat_hash_map<std::string, std::vector<AtPlace>> places;
  memory_.registry().ForEachEntity([&](const store::EntityRecord& e) {
    const auto at = static_cast<size_t>(e.id);
    if (at >= node_of_.size()) node_of_.resize(at + 1, -1);
    if (e.labels.node.empty()) return;
    const std::string& slot = e.labels.pci_bus_id.empty() ? e.labels.device : e.labels.pci_bus_id;
    if (e.key.gpu_instance < 0 && !slot.empty())
      places[e.labels.node + '\n' + slot].push_back({e.id, e.first_seen});
    const auto [node, is_new] =
        known.try_emplace(e.labels.node, static_cast<int32_t>(nodes_.size()));
    if (is_new) {
      nodes_.push_back(e.labels.node);
      node_keys_.push_back(SubjectKey("node", e.labels.node));
    }
    node_of_[at] = node->second;
  });
  for (const auto& [place, there] : places) {
    if (there.size() < 2) continue;
    for (const AtPlace& gpu : there) same_place_[gpu.entity] = there;
  }
}

// Where a silent board was another one is that came after it: it will not be heard of again. (Where
// both were heard at one time, two nodes have one name.)
bool DeviceLook::IsReplaced(const GpuNow& gpu) const {
  const auto there = same_place_.find(gpu.entity);
  return there != same_place_.end() &&
         std::ranges::any_of(there->second, [&](const AtPlace& other) {
           const auto at = static_cast<size_t>(other.entity);
           return other.first_seen > gpu.ts && at < boards_.size() && boards_[at].row_at > gpu.ts;
         });
}

void DeviceLook::StepBack(Micros now) {
  for (Board& board : boards_) board.row_at = std::min(board.row_at, now);
  for (Story& story : stories_) {
    story.left_at = std::min(story.left_at, now);
    story.xid_at = std::min(story.xid_at, now);
  }
  heard_.clear();
}

// --- the first pass ---

void DeviceLook::Begin(Micros now, const QuantitySet& wanted) {
  NameNodes();
  BeginPeers();
  node_now_.assign(nodes_.size(), {});
  silent_.clear();
  const Micros silent_after = memory_.silent_after();
  // Instances have no troubles of their own, and a GPU that is divided is idle by its own row.
  memory_.live()->ForEachGpu(0, [&](const GpuNow& gpu) {
    if (gpu.instance || gpu.ts == 0) return;
    const bool fresh = now - gpu.ts <= silent_after;
    if (!fresh && IsReplaced(gpu)) return;
    if (gpu.counters.found == 0) return SeeGpu(gpu, fresh);
    GpuNow known = gpu;
    LeaveOutWrong(&known);
    SeeGpu(known, fresh);
  });
  FinishPeers(wanted);
}

int32_t DeviceLook::FindPeers(int32_t set) {
  last_set_ = set;
  // Sets come in about the same order in every pass.
  const auto next = static_cast<size_t>(last_place_ + 1);
  if (next < peers_.size() && peers_[next].set == set) return ++last_place_;
  const auto at = peers_at_.find(set);
  return last_place_ = at == peers_at_.end() ? -1 : at->second;
}

// Most of the last round's job sets are this one's too. What a set has for members never changes.
void DeviceLook::BeginPeers() {
  const auto gone = std::ranges::count(peers_, 0, &Peers::all);
  if (gone > kMostGone && static_cast<size_t>(gone) > peers_.size() / 8) {
    size_t kept = 0;
    for (size_t k = 0; k < peers_.size(); ++k) {
      if (peers_[k].all == 0) continue;
      if (kept != k) std::swap(peers_[kept], peers_[k]), std::swap(beside_[kept], beside_[k]);
      ++kept;
    }
    peers_.resize(kept);
    beside_.resize(kept);
    peers_at_.clear();
    for (size_t k = 0; k < kept; ++k) peers_at_[peers_[k].set] = static_cast<int32_t>(k);
  }
  for (Peers& p : peers_) {
    p.fresh = p.all = p.with_duty = p.active = 0;
    p.model = -1;
    p.one_model = true;
    p.duty = 0;
    p.lowest_duty = 2;
  }
  for (std::vector<Four>& b : beside_) b.clear();
  last_set_ = 0;
  last_place_ = -1;
}

DeviceLook::Peers& DeviceLook::NewPeers(int32_t set) {
  last_set_ = set;
  last_place_ = peers_at_[set] = static_cast<int32_t>(peers_.size());
  beside_.emplace_back();
  Peers& p = peers_.emplace_back();
  p.set = set;
  return p;
}

// Under a lock of the live state: asks nobody.
FW_IN_PLACE void DeviceLook::SeeGpu(const GpuNow& gpu, bool fresh) {
  const auto entity = static_cast<size_t>(gpu.entity);
  if (entity < node_of_.size() && node_of_[entity] >= 0) {
    NodeNow& node = node_now_[static_cast<size_t>(node_of_[entity])];
    node.newest = std::max(node.newest, gpu.ts);
    ++node.gpus;
    node.allocated += gpu.job_set != 0 ? 1 : 0;
    if (!fresh && gpu.job_set != 0) silent_.push_back({node_of_[entity], gpu.job_set, gpu.ts});
  }
  if (gpu.job_set == 0) return;
  const int32_t place = PlaceOfPeers(gpu.job_set);
  Peers& p = place < 0 ? NewPeers(gpu.job_set) : peers_[static_cast<size_t>(place)];
  std::vector<Four>& b = beside_[static_cast<size_t>(last_place_)];
  ++p.all;
  if (!fresh) return;
  ++p.fresh;
  if (p.model == -1) p.model = gpu.model;
  if (p.model != gpu.model) p.one_model = false;
  b.push_back(ComparedOf(gpu));
  if (std::isnan(gpu.gpu_util)) {
    p.active += gpu.sm_active > kLeastActive ? 1 : 0;
    return;
  }
  ++p.with_duty;
  p.duty += gpu.gpu_util;
  p.lowest_duty = std::min(p.lowest_duty, gpu.gpu_util);
}

void DeviceLook::FinishPeers(const QuantitySet& wanted) {
  const bool powers = wanted[static_cast<size_t>(Quantity::kGpuPowerToJob)],
             ofus = wanted[static_cast<size_t>(Quantity::kGpuOfuToJob)];
  std::vector<float> values;
  for (size_t k = 0; k < peers_.size(); ++k) {
    Peers& p = peers_[k];
    if (p.jobs.empty())
      memory_.jobs().ForEachMember(p.set, [&](int32_t job) { p.jobs.push_back(job); });
    const auto median = [&](Of of) {
      values.clear();
      for (const Four& gpu : beside_[k])
        if (!std::isnan(gpu[of])) values.push_back(gpu[of]);
      return values.size() >= kFewestPeers ? Median(&values) : kNotKnown;
    };
    // Clocks of several models are not compared, nor is anything beside them.
    const double clock = p.one_model ? median(kClock) : kNotKnown;
    const bool enough = !std::isnan(clock);
    p.median_duty = enough ? median(kDuty) : kNotKnown;
    const auto one_of = [&](Of of, double value) {
      p.one_of[of] = static_cast<float>(value > 0 ? 1 / value : kNotKnown);
    };
    one_of(kClock, clock);
    one_of(kDuty, p.median_duty);
    one_of(kPower, enough && powers ? median(kPower) : kNotKnown);
    one_of(kOfu, enough && ofus ? median(kOfu) : kNotKnown);
    p.duty = p.with_duty > 0 ? p.duty / p.with_duty : kNotKnown;
    // One that is not known may be lower, unless it is seen to run.
    if (p.with_duty + p.active < p.fresh) p.lowest_duty = kNotKnown;
  }
}

// Once something is heard of it, it was its exporter that fell silent first, whatever came after.
bool DeviceLook::IsAlive(size_t node, Micros now, HeardOf heard_of) {
  const Micros newest = node_now_[node].newest;
  // Who held it is known then.
  if (now - newest <= std::max(kHeardAfter, memory_.silent_after())) return false;
  Heard& heard = heard_[node_keys_[node]];
  heard.round = now;
  // Something new: a clock that is ahead says of what came before that it is of now.
  const auto alive = [&] {
    return heard.last > std::max(heard.at_first, newest + kHeardAfter) && heard.at_first >= 0;
  };
  if (alive()) return true;
  absl::InlinedVector<int32_t, 8> sets;
  const auto index = static_cast<int32_t>(node);
  // What was in the samples before the last is of a job that may have ended.
  const auto last = [&](const SilentGpu& gpu) { return gpu.ts >= newest - kOneScrape; };
  for (auto at = std::ranges::lower_bound(silent_, index, {}, &SilentGpu::node);
       at != silent_.end() && at->node == index; ++at)
    if (last(*at) && (sets.empty() || sets.back() != at->job_set)) sets.push_back(at->job_set);
  heard.last = std::max(heard.last, heard_of(nodes_[node], sets));
  if (heard.at_first < 0) heard.at_first = heard.last;
  return alive();
}

void DeviceLook::TakeNodes(Micros now, HeardOf heard_of, Round* round) {
  std::ranges::sort(silent_);
  node_rows_.clear();
  for (size_t k = 0; k < node_now_.size(); ++k)
    if (node_now_[k].gpus > 0) node_rows_.push_back(static_cast<int32_t>(k));
  Subjects& out = round->of(Scope::kNode);
  out.Resize(Scope::kNode, node_rows_.size(), round->wanted);
  for (size_t row = 0; row < node_rows_.size(); ++row) {
    const auto k = static_cast<size_t>(node_rows_[row]);
    out.keys[row] = node_keys_[k];
    out.Set(Quantity::kNodeSilence, row, ToSeconds(std::max<Micros>(now - node_now_[k].newest, 0)));
    out.Set(Quantity::kNodeGpus, row, node_now_[k].gpus);
    out.Set(Quantity::kNodeAllocated, row, node_now_[k].allocated);
    if (IsAlive(k, now, heard_of)) out.Set(Quantity::kNodeAlive, row, 1);
  }
  absl::erase_if(heard_, [now](const auto& node) { return node.second.round != now; });
}

// --- the second ---

void DeviceLook::TurnGrowth(Micros now) {
  const Micros piece = FloorTo(now, kNews);
  if (piece == growth_) return;
  const bool next = piece == growth_ + kNews;
  for (size_t k = 0; k < boards_.size(); ++k) {
    if (!std::exchange(boards_[k].grew, false)) continue;
    for (Story::Growth& g : stories_[k].growth) {
      g = {.now = 0, .before = next ? g.now : 0};
      boards_[k].grew |= g.before != 0;
    }
  }
  growth_ = piece;
}

void DeviceLook::VisitGpus(Micros now, const QuantitySet& wanted, SubjectVisitor visit) {
  TurnGrowth(now);
  seen_.clear();
  last_set_ = 0;
  last_place_ = -1;
  memory_.live()->ForEachGpuPiece([&](absl::Span<GpuNow> piece) {
    for (size_t at = 0; at < piece.size(); at += kBlock) {
      const size_t first = seen_.size();
      TakeBlock(piece.subspan(at, kBlock), now, wanted);
      if (block_.size() > 0) visit(block_, first);
    }
  });
}

void DeviceLook::TakeBlock(absl::Span<GpuNow> gpus, Micros now, const QuantitySet& wanted) {
  // Who came to a job that the first pass did not see is looked at in the next round.
  const Micros silent_after = memory_.silent_after();
  std::array<const Peers*, kBlock> peers;
  size_t rows = 0;
  for (size_t k = 0; k < gpus.size(); ++k) {
    const Peers* p = nullptr;
    if (gpus[k].instance) continue;
    if (now - gpus[k].ts > silent_after && IsReplaced(gpus[k])) continue;
    if (gpus[k].job_set != 0) {
      const int32_t place = PlaceOfPeers(gpus[k].job_set);
      if (place < 0) continue;
      p = &peers_[static_cast<size_t>(place)];
      if (p->all == 0) continue;
    }
    if (rows != k) gpus[rows] = gpus[k];
    peers[rows++] = p;
  }
  const size_t first = seen_.size();
  seen_.resize(first + rows);
  block_.Reshape(Scope::kGpu, rows, wanted);
  block_.holders.resize(rows);
  block_.xid_holders.resize(rows);
  Cells out(&block_);
  for (size_t row = 0; row < rows; ++row) {
    out.Go(row);
    GpuNow& gpu = gpus[row];
    if (row + kAhead < rows) PrefetchBoard(gpus[row + kAhead].entity);
    if (gpu.counters.found != 0) LeaveOutWrong(&gpu);
    Board& board = BoardOf(gpu.entity);
    seen_[first + row] = {gpu.entity, gpu.job_set};
    block_.keys[row] = board.key;
    out.Set(Quantity::kGpuAge, ToSeconds(std::max<Micros>(now - gpu.ts, 0)));
    // Who was the last to hold it still holds it where others of the job are heard. Where none is,
    // nobody knows: a scrape that is lost does not say that the job is over.
    const Peers* const p = peers[row];
    const bool fresh = now - gpu.ts <= silent_after;
    const bool held = p != nullptr && (fresh || p->fresh > 0);
    const bool known = held || fresh || p == nullptr;
    out.Set(Quantity::kGpuAllocated, known ? held : kNotKnown);
    out.Set(Quantity::kGpuJobs, !known ? kNotKnown
                                : held ? static_cast<double>(p->jobs.size())
                                       : 0);
    block_.holders[row] = static_cast<uint32_t>(gpu.job_set);
    if (fresh) {
      const Before before{board.job_set, board.held};
      SetGpu(gpu, p, &board, out);
      SetTroubles(gpu, now, before, &board, out);
      if (before.held && gpu.job_set == 0) StoryOf(gpu.entity).left_at = board.row_at;
      board.held = gpu.job_set != 0;
      board.row_at = gpu.ts;
    } else {
      out.ForgetFreshOnes();
    }
    block_.xid_holders[row] =
        static_cast<uint32_t>(board.xid_came ? StoryOf(gpu.entity).xid_set : 0);
  }
}

double DeviceLook::FindMaxClock(int32_t model) {
  last_model_ = model;
  auto [known, is_new] = one_of_max_clocks_.try_emplace(model, kNotKnown);
  if (is_new) {
    const auto record = memory_.registry().model(model);
    if (record) known->second = 1 / record->tensor_clock_max_mhz.value_or(kNotKnown);
  }
  return one_of_max_clock_ = known->second;
}

FW_IN_PLACE void DeviceLook::SetGpu(const GpuNow& gpu, const Peers* peers, Board* board,
                                    const Cells& out) {
  out.Set(Quantity::kGpuOfu, gpu.ofu);
  out.Set(Quantity::kGpuTensor, gpu.tensor_active);
  out.Set(Quantity::kGpuSmActive, gpu.sm_active);
  out.Set(Quantity::kGpuDuty, gpu.gpu_util);
  out.Set(Quantity::kGpuActivity, Larger(Larger(gpu.gpu_util, gpu.sm_active), gpu.tensor_active));
  out.Set(Quantity::kGpuPower, gpu.power_w);
  out.Set(Quantity::kGpuTemperature, gpu.gpu_temp_c);
  out.Set(Quantity::kGpuClock, gpu.sm_clock_mhz);
  out.Set(Quantity::kGpuMemory, gpu.fb_used_mib);
  out.Set(Quantity::kGpuClockShare, gpu.sm_clock_mhz * OneOfMaxClock(gpu.model));
  out.Set(Quantity::kGpuJobGpus, peers == nullptr ? 0 : peers->fresh);
  out.Set(Quantity::kGpuJobDuty, peers == nullptr ? kNotKnown : peers->duty);
  if (peers != nullptr) {
    SetBesidePeers(gpu, *peers, board, out);
  } else {
    NotCompared(gpu, board);
    for (const Quantity q : kBesidePeers) out.Set(q, kNotKnown);
  }
  using Opinion = efficiency::CounterOpinion;
  const Opinion opinion = gpu.counters.opinion;
  out.Set(Quantity::kGpuCounterFault,
          opinion == Opinion::kNotJudged ? kNotKnown : opinion == Opinion::kFaulty);
}

void DeviceLook::NotCompared(const GpuNow& gpu, Board* board) {
  if (gpu.ts > board->row_at && board->taken == Taken::kNewest) board->taken = Taken::kEarlier;
}

// In a pause of the job there is nothing to compare: what was known of it stays. Of a value that is
// not there any more nothing is known.
FW_IN_PLACE void DeviceLook::SetBesidePeers(const GpuNow& gpu, const Peers& p, Board* of,
                                            const Cells& out) {
  Board& board = *of;
  const Four values = ComparedOf(gpu);
  if (board.job_set != gpu.job_set) {
    board.job_set = gpu.job_set;
    board.taken = Taken::kNone;
    board.to_job = Four{} + std::numeric_limits<float>::quiet_NaN();
  }
  const bool is_new = board.taken != Taken::kNewest || gpu.ts > board.row_at;
  if (is_new && p.median_duty >= kAtWork) {
    // Rows at the edges of a pause have a part of it, each GPU's another one: the first after it
    // says nothing, the last before it little.
    const bool first = board.taken != Taken::kNewest;
    const float share =
        std::min(1.F, static_cast<float>(gpu.ts - board.row_at) * (1.F / kSmoothed));
    board.taken = Taken::kNewest;
    if (!first) {
      const Four mean = board.to_job;
      const Four known = mean == mean ? mean : Four{1, 1, 1, 1};  // as the others, until it shows
      const Four step = values * p.one_of - known;
      Four within = step < -kMostStep ? Four{} - kMostStep : step;
      within = within > kMostStep ? Four{} + kMostStep : within;
      board.to_job = step == step ? known + share * within : mean;  // NaN: not known
    }
  } else {
    NotCompared(gpu, of);
  }
  for (size_t k = 0; k < kCompared; ++k)
    out.Set(kBesidePeers[k], std::isnan(values[k]) ? values[k] : board.to_job[k]);
}

// Who has an XID that the row is the first to show. Where the row before was another job's, that
// one ended with it: most codes end the process that they come to.
int32_t DeviceLook::XidSet(const GpuNow& gpu, Before before, const Board& board,
                           const Story& story) {
  if (board.row_at == 0) return 0;  // it came while nobody looked
  const auto just = [&](Micros ts) { return gpu.ts - ts <= kEndedWith; };
  const int32_t held_by = before.held ? before.job_set : 0;  // of the last row
  if (gpu.job_set != 0 && (held_by == gpu.job_set || held_by == 0)) return gpu.job_set;
  if (held_by != 0) return just(board.row_at) ? held_by : 0;
  return just(story.left_at) ? before.job_set : 0;
}

FW_IN_PLACE void DeviceLook::SetTroubles(const GpuNow& gpu, Micros now, Before before, Board* of,
                                         const Cells& out) {
  Board& board = *of;
  Story& story = StoryOf(gpu.entity);
  const ingest::GpuTroubles& t = gpu.troubles;
  out.Set(Quantity::kGpuThrottle, Told(t.throttle));
  out.Set(Quantity::kGpuXid, Told(t.xid));
  out.Set(Quantity::kGpuXidNew, kNotKnown);
  if (t.xid >= 0) {
    // A code that was there when the GPU was seen first is of nobody knows when. The same one again
    // shows in how many the exporter has counted, if it counts; before the first it may say
    // nothing.
    const int32_t errors = AtMostInt32(t.xid_errors);
    const bool again = board.xid_errors >= 0 && errors > board.xid_errors;
    if (board.xid >= 0 && t.xid != 0 && (t.xid != board.xid || again)) {
      board.xid_came = true;
      story.xid_at = now;
      story.xid_set = XidSet(gpu, before, board, story);
    }
    board.xid = t.xid;
    if (errors >= 0 || board.xid_errors < 0) board.xid_errors = std::max(errors, 0);
    const bool is_new = board.xid_came && now - story.xid_at < kNews;
    out.Set(Quantity::kGpuXidNew, is_new ? t.xid : 0);
  }
  // Of 64 bits the lower ones: -1 stays "not said", and once round looks as a reset.
  const std::array<uint32_t, kErrorCounters> said = {
      static_cast<uint32_t>(t.ecc_dbe), static_cast<uint32_t>(t.row_remaps),
      static_cast<uint32_t>(t.nvlink_errors), static_cast<uint32_t>(t.pcie_replays)};
  if (said != board.totals) SeeErrors(gpu.ts, said, of, &story);
  out.Set(Quantity::kGpuRowRemapPending, Told(t.row_remap_pending));
  out.Set(Quantity::kGpuRowRemapFailed, Told(t.row_remap_failed));
  for (size_t k = 0; k < kErrorCounters; ++k) {
    const Story::Growth growth = board.grew ? story.growth[k] : Story::Growth();
    out.Set(kErrorQuantities[k], board.totals[k] == Board::kNotSaid
                                     ? kNotKnown
                                     : static_cast<double>(growth.now) + growth.before);
  }
}

void DeviceLook::SeeErrors(Micros ts, const std::array<uint32_t, kErrorCounters>& said, Board* of,
                           Story* story) {
  Board& board = *of;
  // What is judged by its rate is of all the time since the row before, in which nobody looked; of
  // double errors and remaps each one counts, whenever it came.
  const Micros since = board.row_at == 0 ? 0 : ts - board.row_at;
  const double rate = since > kNews ? static_cast<double>(kNews) / static_cast<double>(since) : 1;
  for (size_t k = 0; k < kErrorCounters; ++k) {
    uint32_t& last = board.totals[k];
    if (said[k] == Board::kNotSaid) continue;
    if (last != Board::kNotSaid && said[k] > last) {
      const double share = k == kEcc || k == kRemaps ? 1 : rate;
      uint32_t& now = story->growth[k].now;
      now = static_cast<uint32_t>(
          std::min(now + std::ceil(share * (said[k] - last)), static_cast<double>(UINT32_MAX)));
      board.grew = true;
    }
    last = said[k];  // one that went back was reset
  }
}

// --- over a restart ---

void DeviceLook::WriteState(JsonWriter* json) const {
  json->BeginArray();
  for (size_t entity = 0; entity < boards_.size(); ++entity) {
    const Board& board = boards_[entity];
    if (board.key == 0 || board.xid < 0) continue;
    const auto record = memory_.registry().entity(static_cast<int32_t>(entity));
    if (record)
      json->BeginArray()
          .Value(record->key.uuid)
          .Value(board.xid)
          .Value(board.xid_errors)
          .EndArray();
  }
  json->EndArray();
}

void DeviceLook::ReadState(const Json& xids) {
  for (const Json& x : xids.array()) {
    const Json::Array& parts = x.array();  // an older version's have two
    if (parts.size() < 2) continue;
    XidState& seen = xids_[parts[0].text()];
    seen.xid = static_cast<int32_t>(parts[1].integer_or(-1));
    if (parts.size() > 2) seen.errors = std::max<int64_t>(parts[2].integer_or(-1), -1);
  }
}

}  // namespace flopwatch::alerts
