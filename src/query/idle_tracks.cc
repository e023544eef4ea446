#include "query/idle_tracks.h"

#include <algorithm>
#include <cmath>

#include "efficiency/sample_flags.h"
#include "fleet/idle/rules.h"

namespace flopwatch::query {
namespace {

using fleet::IdleReading;
using store::Window;

constexpr std::string_view kIdleColumns[] = {"gr_active",     "gpu_util", "sm_active",
                                             "tensor_active", "power_w",  "fb_used_mib"};
// A job that comes back to a GPU later than this is another attempt: Slurm holds a requeued job for
// two minutes, and the edges of one attempt's GPUs differ by seconds.
constexpr Micros kSameAttempt = 30 * kMicrosPerSecond;
// Seconds of a minute that samples must stand for, so that its means stand for the minute.
constexpr double kLeastOfMinute = 30;
constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

}  // namespace

double IdleTracks::EmptyMemory(int32_t entity) const {
  const auto board = boards_.find(entity);
  if (board == boards_.end()) return std::numeric_limits<double>::quiet_NaN();
  if (!std::isnan(board->second.empty_mib)) return board->second.empty_mib;
  const auto model = model_empty_.find(board->second.model);
  return model == model_empty_.end() ? std::numeric_limits<double>::quiet_NaN() : model->second;
}

void IdleTracks::AddHolders(const Memory& memory, Window window, Window known) {
  const std::vector<jobs::IntervalRecord> all = memory.jobs().Intervals(known.from, known.to);
  absl::flat_hash_map<int32_t, uint32_t> last;  // track of a job on this entity
  for (size_t at = 0; at < all.size();) {
    size_t end = at + 1;
    while (end < all.size() && all[end].entity == all[at].entity) ++end;
    last.clear();
    const int32_t entity = all[at].entity;
    const double fraction = memory.registry().Fraction(entity);
    std::vector<Micros> edges;
    std::vector<uint32_t> track_of;  // by interval
    for (size_t i = at; i < end; ++i) {
      const jobs::IntervalRecord& r = all[i];
      edges.push_back(r.from);
      edges.push_back(r.to);
      const auto [it, fresh] = last.try_emplace(r.job, 0);
      if (fresh || r.from - tracks_[it->second].track.to() > kSameAttempt) {
        it->second = static_cast<uint32_t>(tracks_.size());
        tracks_.push_back({entity, r.job, {r.from, r.to, window.from, window.to}});
      } else {
        tracks_[it->second].track.ProlongTo(r.to);
      }
      track_of.push_back(it->second);
    }
    std::ranges::sort(edges);
    edges.erase(std::ranges::unique(edges).begin(), edges.end());
    Board& board = boards_[entity];
    board.first = board.at = static_cast<uint32_t>(pieces_.size());
    for (size_t k = 0; k + 1 < edges.size(); ++k) {
      Piece piece{edges[k], edges[k + 1], fraction, static_cast<uint32_t>(holders_.size()), 0};
      for (size_t i = at; i < end; ++i) {
        if (all[i].from > piece.from || all[i].to < piece.to) continue;
        const auto begin = holders_.begin() + piece.first;
        if (std::find(begin, holders_.end(), track_of[i - at]) != holders_.end()) continue;
        holders_.push_back(track_of[i - at]);
        ++piece.count;
      }
      if (piece.count == 0) continue;
      piece.share = fraction / piece.count;
      const Micros held = std::min(piece.to, window.to) - std::max(piece.from, window.from);
      for (uint32_t h = 0; h < piece.count && held > 0; ++h)
        tracks_[holders_[piece.first + h]].held_s += piece.share * ToSeconds(held);
      pieces_.push_back(piece);
      ++board.count;
    }
    at = end;
  }
}

void IdleTracks::AddRow(Board* board, const IdleReading& reading) {
  const uint32_t end = board->first + board->count;
  while (board->at < end && pieces_[board->at].to <= reading.from) ++board->at;
  Micros owned_from = reading.to;
  for (uint32_t k = board->at; k < end && pieces_[k].from < reading.to; ++k) {
    const Piece& piece = pieces_[k];
    owned_from = std::min(owned_from, piece.from);
    // The rest of the row is before or behind it.
    IdleReading part = reading;
    part.from = std::max(reading.from, piece.from);
    part.to = std::min(reading.to, piece.to);
    for (uint32_t h = 0; h < piece.count; ++h) {
      fleet::IdleTrack& track = tracks_[holders_[piece.first + h]].track;
      // Only an edge of the track itself makes what the row shows somebody else's.
      if (reading.from < track.from()) part.from = reading.from;
      if (reading.to > track.to()) part.to = reading.to;
      track.Add(part, piece.share, board->power_limit_w);
    }
  }
  if (owned_from < reading.to || !(reading.Duty() <= fleet::kIdleDuty) ||
      std::isnan(reading.memory_mib))
    return;
  board->empty_mib = std::isnan(board->empty_mib) ? reading.memory_mib
                                                  : std::min(board->empty_mib, reading.memory_mib);
}

void IdleTracks::Finish() {
  for (HeldTrack& t : tracks_) t.track.Finish();
  absl::flat_hash_map<int32_t, std::vector<double>> empty;
  for (const auto& [entity, board] : boards_)
    if (!std::isnan(board.empty_mib)) empty[board.model].push_back(board.empty_mib);
  for (auto& [model, values] : empty) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    model_empty_[model] = *middle;
  }
}

StatusOr<std::unique_ptr<IdleTracks>> IdleTracks::Read(const Query& query, Window window,
                                                       Window known) {
  const Memory& memory = query.memory();
  auto out = std::unique_ptr<IdleTracks>(new IdleTracks());
  out->AddHolders(memory, window, known);
  absl::flat_hash_map<int32_t, double> limits;  // by model
  memory.registry().ForEachEntity([&](const store::EntityRecord& e) {
    Board& board = out->boards_[e.id];
    board.model = e.model;
  });
  for (auto& [entity, board] : out->boards_) {
    const auto [it, fresh] = limits.try_emplace(board.model, 0);
    if (fresh) {
      const auto model = memory.registry().model(board.model);
      it->second = model.has_value() ? model->tdp_w : 0;
    }
    board.power_limit_w = it->second;
  }
  FW_RETURN_IF_ERROR(out->ReadMinutes(query, known));
  FW_RETURN_IF_ERROR(out->ReadRows(query, known));
  out->Finish();
  return out;
}

Status IdleTracks::ReadMinutes(const Query& query, Window known) {
  const Micros oldest = FloorTo(query.store().stats().oldest_ts, kMicrosPerMinute);
  const Window gone = {FloorTo(known.from, kMicrosPerMinute), std::min(oldest, known.to)};
  if (oldest == 0 || gone.from >= gone.to) return absl::OkStatus();
  FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> fleet,
                      query.store().FleetSeries(gone, kMicrosPerHour));
  const auto any = [](const store::UsagePoint& p) { return p.sums.ofu.observed_s > 0; };
  if (std::ranges::none_of(fleet, any)) return absl::OkStatus();  // the fleet is no older
  minutes_until_ = gone.to;
  std::vector<int32_t> held;
  for (const auto& [entity, board] : boards_) {
    if (board.count > 0 && pieces_[board.first].from < gone.to) held.push_back(entity);
  }
  std::ranges::sort(held);
  if (held.size() > kMaxMinuteGpus) {
    without_minutes_ = held.size() - kMaxMinuteGpus;
    held.resize(kMaxMinuteGpus);
  }
  const auto mean = [](double sum, double seconds) { return seconds > 0 ? sum / seconds : kNone; };
  for (const int32_t entity : held) {
    FW_ASSIGN_OR_RETURN(const std::vector<store::UsagePoint> minutes,
                        query.store().GpuSeries(entity, gone, kMicrosPerMinute));
    for (const store::UsagePoint& m : minutes) {
      if (m.sums.ofu.observed_s < kLeastOfMinute) continue;
      AddRow(&boards_[entity], {.from = m.ts,
                                .to = std::min(m.ts + kMicrosPerMinute, gone.to),
                                .gr_active = kNone,
                                .gpu_util = mean(m.sums.gpu_util_s, m.sums.gpu_util_span_s),
                                .sm_active = mean(m.sums.sm_active_s, m.sums.sm_active_span_s),
                                .tensor_active = mean(m.sums.tensor_s, m.sums.tensor_span_s),
                                .power_w = mean(m.sums.power_j, m.sums.power_span_s),
                                .memory_mib = kNone});
    }
  }
  return absl::OkStatus();
}

Status IdleTracks::ReadRows(const Query& query, Window known) {
  return query.store().VisitGpuRows(
      known, kIdleColumns, store::RowOrder::kByGpu, [&](const store::GpuRows& rows) {
        for (size_t r = 0; r < rows.count; ++r) {
          const auto flags = static_cast<uint32_t>(rows.flags[r]);
          if (rows.span_ms[r] <= 0 || (flags & efficiency::kFrozen) != 0) continue;
          const auto board = boards_.find(rows.entity[r]);
          if (board == boards_.end()) continue;
          const Micros to = rows.ts[r];
          const bool tensor = (flags & efficiency::kNoTensor) == 0;
          AddRow(&board->second, {.from = to - Micros{rows.span_ms[r]} * 1000,
                                  .to = to,
                                  .gr_active = rows.values[0][r],
                                  .gpu_util = rows.values[1][r],
                                  .sm_active = rows.values[2][r],
                                  .tensor_active = tensor ? rows.values[3][r] : kNone,
                                  .power_w = rows.values[4][r],
                                  .memory_mib = rows.values[5][r]});
        }
        return absl::OkStatus();
      });
}

}  // namespace flopwatch::query
