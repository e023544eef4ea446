// The stage that says who a decoded row is of: the GPU's id, model and share (registry), whether
// this source may speak for it (claims), and whose jobs run there (job index).
//
// Threads: one Resolver belongs to one source and is used under its lock; what it asks is shared
// with all sources and locks itself.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/time.h"
#include "ingest/budget.h"
#include "ingest/claims.h"
#include "ingest/options.h"
#include "ingest/origin.h"
#include "ingest/registry.h"
#include "jobs/job_index.h"
#include "telemetry/exposition.h"

namespace flopwatch::ingest {

// Who a slot of a source's decoder is, kept from scrape to scrape.
struct Identity {
  bool settled = false;  // false: what the source says of it was not believed; it is asked again
  uint32_t version = 0;  // DecodedRow::identity_version of which this was made
  // Until then the registry was told that there are rows; what is silent for long it forgets.
  Micros seen_until = 0;
  telemetry::EntityKind kind = telemetry::EntityKind::kGpu;
  Evidence evidence = Evidence::kNone;
  uint64_t node_hash = 0;
  ResolvedEntity entity;
  int32_t job_set = 0;
  std::vector<int32_t> jobs;  // members of job_set
};

class Resolver {
 public:
  // `source` is the number under which claims know the source, `origin` what it is called. The
  // pointers outlive the resolver.
  Resolver(const PipelineOptions* options, Registry* registry, Claims* claims, jobs::JobIndex* jobs,
           uint32_t source, const Origin& origin);
  ~Resolver();
  Resolver(const Resolver&) = delete;
  Resolver& operator=(const Resolver&) = delete;

  enum class Found : uint8_t {
    kKnown,    // nothing has changed
    kAnew,     // its labels, owners or the claim on it may have
    kAnother,  // the slot is another GPU's now: `who` was made anew
    kNoRoom,   // the registry is full
    kRefused,  // it is new, and more than the sender may make known
  };
  // Brings `who` up to date with what a row at `ts` says of itself.
  Found Resolve(const telemetry::DecodedRow& row, Micros ts, Newcomers* newcomers, Identity* who) {
    if (who->settled && who->version == row.identity_version && ts < who->seen_until)
      return Found::kKnown;
    return ResolveAnew(row, ts, newcomers, who);
  }
  // Notes what the server's clock says, for the rows that follow.
  void NoteClock(Micros now) { now_ = now; }
  // Asks for the memory that Admit() and Own() will want.
  void Prefetch(const Identity& who) const {
    claims_->Prefetch(who.entity.id);
    jobs_->Prefetch(who.entity.id);
  }
  // Whether a row of `who` at `ts` counts. A refusal is remembered as a conflict.
  Claims::Verdict Admit(const Identity& who, Micros ts, bool own_timestamp);
  // The time of `who` goes on from `ts`, which is earlier than its last row.
  void SetBack(const Identity& who, Micros ts) { jobs_->SetBack(who.entity.id, ts); }
  // Notes who owned the GPU for `weight` before `ts`, in `who` and in the index.
  void Own(const telemetry::DecodedRow& row, Micros ts, Micros weight, Newcomers* newcomers,
           Identity* who);

 private:
  Found ResolveAnew(const telemetry::DecodedRow& row, Micros ts, Newcomers* newcomers,
                    Identity* who);
  bool MayMakeKnown(const telemetry::DecodedRow& row, Newcomers* newcomers) const;
  Claims::Claim ClaimOf(int32_t entity, uint64_t node, Evidence evidence) const {
    return {.source = source_, .entity = entity, .node = node, .evidence = evidence};
  }
  Claims::Timing timing() const {
    return {.nominal_interval = options_->nominal_interval,
            .max_span = options_->max_span,
            .now = now_};
  }

  const PipelineOptions* const options_;
  Registry* const registry_;
  Claims* const claims_;
  jobs::JobIndex* const jobs_;
  const uint32_t source_;
  const std::string node_, nvlink_domain_;
  Micros now_ = 0;
  const bool names_itself_;  // nobody but the source says on which node it runs
};

}  // namespace flopwatch::ingest
