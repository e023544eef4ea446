// Raw rows charged to whoever had their GPU by the interval table, whatever job they were stamped
// with.
//
// A row at ts stands for (ts - span, ts]; the part of that which lies in a stretch of constant
// owners counts for them, each an equal share; time between stretches is nobody's (job 0). Most
// GPUs have one owner for the whole window, and their rows cost no more than those of a plain sum.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "base/mutex.h"
#include "jobs/job_index.h"
#include "store/duckdb/raw_sums.h"
#include "store/store.h"

namespace flopwatch::store::duck {

class JobExact : public RowSink {
 public:
  // `weights`: of entities that are not whole GPUs.
  JobExact(Window window, std::vector<jobs::IntervalRecord> intervals,
           const absl::flat_hash_map<int32_t, double>& weights);

  void Rows(const RawColumns& in, const int32_t* entity, const int32_t* model) override;

  // Called after the query, it calls f(job, model, share, sums) for everything that was counted.
  void Finish(
      const std::function<void(int32_t job, int32_t model, double share, const RawState&)>& f);
  // Distinct GPUs and instances of each job, after Finish().
  std::map<int32_t, int32_t> Gpus() const;

 private:
  using OwnersId = uint32_t;  // into owners_; 0 = nobody
  struct Stretch {
    Micros from, to;
    OwnersId owners;
  };
  struct Gpu {
    OwnersId owners = 0;            // of the whole window, where `count` is 0
    uint32_t begin = 0, count = 0;  // of stretches_
    double fraction = 1;            // of its GPU
  };
  // What one thread has counted.
  struct Part {
    struct Slot {
      int32_t model = -1;
      RawState* state = nullptr;
    };
    absl::flat_hash_map<uint64_t, std::unique_ptr<RawState>> sums;  // by owners and model
    std::vector<Slot> last;                                         // by owners: the model met last
    std::vector<uint8_t> seen;                // by entity: of GPUs with one owner
    absl::flat_hash_set<uint64_t> seen_with;  // entity and owners: of the others
    RawState* Of(OwnersId owners, int32_t model);
  };

  Part* OwnPart();
  OwnersId IdOf(std::vector<int32_t> jobs);
  // The last one stands for entities that no interval names: nobody's.
  size_t IndexOf(int32_t entity) const {
    return std::min<size_t>(static_cast<uint32_t>(entity), gpus_.size() - 1);
  }
  void AddSlow(const RawColumns& in, size_t row, int32_t entity, int32_t model, Part* part) const;

  const Window window_;
  static constexpr OwnersId kNotPlain = ~OwnersId{0};
  std::vector<Gpu> gpus_;  // by entity
  std::vector<OwnersId>
      plain_;  // by entity: owners of a whole GPU that has one set of them, else kNotPlain
  std::vector<Stretch> stretches_;
  std::vector<std::vector<int32_t>> owners_;
  std::map<std::vector<int32_t>, OwnersId> ids_;
  Mutex mutex_;
  absl::flat_hash_map<std::thread::id, std::unique_ptr<Part>> parts_ FW_GUARDED_BY(mutex_);
  Part all_;
};

}  // namespace flopwatch::store::duck
