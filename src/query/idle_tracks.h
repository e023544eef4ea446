// Who held which GPU while its counters showed what: the raw rows of a window folded into one track
// (fleet/idle/track.h) for each GPU and job. What is kept grows with GPUs and jobs, never with
// rows.
#pragma once

#include <cstdint>
#include <limits>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "base/status.h"
#include "fleet/idle/track.h"
#include "query/query.h"

namespace flopwatch::query {

// GPUs of which minutes are read where raw rows are gone: one question to the store for each.
inline constexpr size_t kMaxMinuteGpus = 4096;

// One GPU or instance in one job, from when the job got it to when it left it.
struct HeldTrack {
  int32_t entity = 0, job = 0;
  fleet::IdleTrack track;
  double held_s = 0;  // GPU-seconds within the window, with samples or not
};

class IdleTracks {
 public:
  // Rows of `known` are read, which has the window in it; sums are of the window.
  static StatusOr<std::unique_ptr<IdleTracks>> Read(const Query& query, store::Window window,
                                                    store::Window known);

  // By entity, then time.
  const std::vector<HeldTrack>& all() const { return tracks_; }
  // What the empty board has in use: the least that was seen while nobody held it, else the usual
  // of its model's boards; NaN = no board of the model was ever seen free.
  double EmptyMemory(int32_t entity) const;
  // Until when raw rows are gone and the minutes of GPUs stand for them; 0 = nowhere.
  Micros minutes_until() const { return minutes_until_; }
  // GPUs that were left out there, of kMaxMinuteGpus and more.
  size_t without_minutes() const { return without_minutes_; }

 private:
  // A time in which the same jobs hold an entity.
  struct Piece {
    Micros from = 0, to = 0;
    double share = 1;
    uint32_t first = 0, count = 0;  // in holders_
  };
  struct Board {
    uint32_t first = 0, count = 0;  // in pieces_
    uint32_t at = 0;                // the piece that rows have come to
    int32_t model = 0;
    double power_limit_w = 0;
    double empty_mib = std::numeric_limits<double>::quiet_NaN();
  };

  void AddHolders(const Memory& memory, store::Window window, store::Window known);
  // What the store keeps for longer than rows: means over a minute, without memory in use.
  Status ReadMinutes(const Query& query, store::Window known);
  Status ReadRows(const Query& query, store::Window known);
  void AddRow(Board* board, const fleet::IdleReading& reading);
  void Finish();

  std::vector<HeldTrack> tracks_;
  std::vector<Piece> pieces_;
  std::vector<uint32_t> holders_;                     // in tracks_
  absl::flat_hash_map<int32_t, Board> boards_;        // by entity
  absl::flat_hash_map<int32_t, double> model_empty_;  // by model
  Micros minutes_until_ = 0;
  size_t without_minutes_ = 0;
};

}  // namespace flopwatch::query
