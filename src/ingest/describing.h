// What stored rows refer to (GPUs, models, narrow series, jobs), on its way to the store ahead of
// them. What is new waits where it was learned, each thing once however often it changes, until
// what was taken before is stored: a store that fails makes nothing here grow.
//
// A record that the store refuses as invalid holds up no other. It is found by trying halves. What
// can be stored without its texts is: a job or a model under a name that says so, a GPU without
// labels; no row is lost. A GPU or a series whose identity itself is refused is set aside, and its
// rows are left out and counted, because nothing stored may refer to what is not there.
//
// Threads: one at a time.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/container/flat_hash_set.h"
#include "base/status.h"
#include "ingest/registry.h"
#include "jobs/books.h"
#include "jobs/job_index.h"
#include "store/store.h"

namespace flopwatch::ingest {

class DescribingRecords {
 public:
  // The pointers outlive it.
  DescribingRecords(store::Store* store, Registry* registry, jobs::JobIndex* jobs,
                    jobs::Books* books)
      : store_(store), registry_(registry), jobs_(jobs), books_(books) {}

  // Stores everything that is new by now. On an error all of it is kept for the next call.
  Status Write(bool shutdown);

  // Rows of what is set aside are left out.
  bool any_set_aside() const { return !entities_.empty() || !series_.empty(); }
  bool EntitySetAside(int32_t id) const { return entities_.contains(id); }
  bool SeriesSetAside(int32_t id) const { return series_.contains(id); }
  // Records refused since start.
  uint64_t refused() const { return refused_; }

 private:
  Status PutPending();
  Status PutJobs();
  Status PutBooks();
  void Refuse(std::string_view what, int32_t id, const Status& why);

  store::Store* const store_;
  Registry* const registry_;
  jobs::JobIndex* const jobs_;
  jobs::Books* const books_;
  Registry::Changes pending_;
  jobs::Changes pending_jobs_;
  jobs::BookChanges pending_books_;
  absl::flat_hash_set<int32_t> entities_, series_;  // set aside
  uint64_t refused_ = 0;
};

}  // namespace flopwatch::ingest
