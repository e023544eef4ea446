// Retention, of the store and of what memory knows about what is in it, in the order in which
// nothing is ever named that nobody knows: rows go first, then the intervals that say who owned
// them, then the names in both.
//
// Of names memory forgets first: it alone knows whether one has just come back. What the store
// still has of them is told again until it is gone; what a kill leaves there is forgotten again
// after the next start.
//
// Threads: one.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "ingest/application.h"
#include "ingest/registry.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "store/store.h"

namespace flopwatch::ingest {

class Retention {
 public:
  // The pointers outlive it.
  Retention(store::Store* store, jobs::JobIndex* jobs, ApplicationIntake* application,
            Registry* registry, jobs::Books* books)
      : store_(store), jobs_(jobs), application_(application), registry_(registry), books_(books) {}

  // What is too old goes when the clock says `now`; about once a minute. On an error the rest is
  // left to the next call.
  Status Apply(Micros now);

 private:
  store::Store* const store_;
  jobs::JobIndex* const jobs_;
  ApplicationIntake* const application_;
  Registry* const registry_;
  jobs::Books* const books_;
  // By memory, and the store may still have it.
  jobs::Forgotten forgotten_;
  std::vector<int32_t> forgotten_claims_;
  store::ForgottenDevices forgotten_devices_;
};

}  // namespace flopwatch::ingest
