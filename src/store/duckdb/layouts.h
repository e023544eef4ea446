// What there is to read in a directory, and how that changes: hot segments and sealed files, which
// reader has which state of them, and what goes once no reader has it any more.
//
// Views are for users' SQL alone, and are made when somebody asks in it (BringViews): making them
// takes tens of milliseconds, and an import or an hour that is sealed changes the layout several
// times. A reader may so see views that are newer than the layout it has, never older ones; what
// either names is there.
//
// Threads: any. Whoever is given a Connection has a lease.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "base/mutex.h"
#include "store/duckdb/dimensions.h"
#include "store/duckdb/layout.h"
#include "store/duckdb/lock_order.h"

namespace flopwatch::store::duck {

// Names of the segments whose files lie in hot/.
std::set<std::string> HotSegments(const std::string& directory);

class Layouts {
 public:
  Layouts(const std::string& directory, const DimensionTables& dimensions);

  // Everything from disk, while the engine is being opened: there are no readers.
  Status Open(Connection* c, bool read_only) FW_EXCLUDES(publish_, mutex_);

  // The next Open() reads all hot files whole, and sets aside those that are damaged.
  void Doubt() { doubted_ = true; }

  // What there is now, to look at. Only a reader's layout (Reading) and what the caller otherwise
  // keeps from going are there for longer than this call. A loop over a part takes a copy first
  // (`for (const auto hot = layouts.Now()->hot; ...`), because a temporary is gone in its body.
  std::shared_ptr<const Layout> Now() const FW_EXCLUDES(mutex_);

  // The layout of one reader, taken after its lease and given back before that: nothing that it
  // names is detached or deleted meanwhile.
  class Reading {
   public:
    explicit Reading(Layouts& layouts);
    ~Reading();
    Reading(const Reading&) = delete;
    Reading& operator=(const Reading&) = delete;
    const Layout& operator*() const { return *layout_; }

   private:
    Layouts& layouts_;
    std::shared_ptr<const Layout> layout_;
  };

  // Changes what there is to read. `gone` is what the next layout no longer names.
  struct Gone {
    std::shared_ptr<Segment> segment;
    SealedFiles files;
  };
  void Publish(absl::FunctionRef<void(Layout*)> change, Gone gone = {})
      FW_EXCLUDES(publish_, mutex_);
  // For a reader (Reading) that goes on with users' SQL: the views are of its layout or a newer one
  // afterwards, without the files that the engine cannot open.
  Status BringViews(Connection* c) FW_EXCLUDES(publish_, mutex_);
  // Counts up with what is to be deleted from the disk.
  uint64_t ToBeDeleted() const FW_EXCLUDES(mutex_);
  // Detaches and deletes what is gone and no reader has. Upkeep alone calls this.
  Status Reclaim(Connection* c) FW_EXCLUDES(mutex_);

  // The segment that takes rows of this arrival, made where there is none. It is for who has the
  // turn to write.
  StatusOr<std::shared_ptr<Segment>> SegmentFor(Connection* c, Micros arrival);

  // Shows readers a segment in memory in place of the one shown before; null = none.
  void Show(std::shared_ptr<Segment> staged) FW_EXCLUDES(publish_, mutex_);
  // A pause is for moving rows that readers are shown in memory to where they would see them again.
  // While a granted one lives, no reader begins; those who might see them in memory have ended. It
  // is not granted where they do not end in so long: then nothing may be moved, because they would
  // count rows twice. Where nothing is shown and nobody has seen any, it stops nobody.
  class Pause {
   public:
    Pause(Layouts& layouts, Micros longest);
    ~Pause();
    Pause(const Pause&) = delete;
    Pause& operator=(const Pause&) = delete;
    bool granted() const { return granted_; }

   private:
    Layouts& layouts_;
    bool granted_ = false;
  };

  // The id of the next sealed file.
  std::atomic<int64_t>* next_file_id() { return &next_file_id_; }

 private:
  struct Retired {
    uint64_t generation = 0;  // the first that does not have it
    Gone what;
  };
  Status Drop(Connection* c, const Gone& gone);
  // Null where it is set aside, or there is nothing in it for a reader. What it has lost is added
  // to `lost`.
  StatusOr<std::shared_ptr<Segment>> OpenSegment(Connection* c, const std::string& name,
                                                 bool read_only, std::vector<LostRows>* lost);
  StatusOr<std::shared_ptr<Segment>> OpenWhole(Connection* c, const std::string& name,
                                               bool read_only);
  // CreateViews(), without the files that the engine cannot open.
  Status MakeViews(Connection* c, Layout* layout) FW_REQUIRES(publish_);

  const std::string directory_;
  const DimensionTables& dimensions_;
  std::atomic<int64_t> next_file_id_{1};
  std::atomic<bool> doubted_{false};
  Mutex publish_ FW_ACQUIRED_BEFORE(mutex_){kPublishRank};  // held from one layout to the next
  uint64_t views_of_ FW_GUARDED_BY(publish_) = 0;           // the generation that they show
  mutable Mutex mutex_{kLayoutsRank};
  CondVar changed_;  // a reader has left, or a pause has ended
  std::shared_ptr<const Layout> layout_ FW_GUARDED_BY(mutex_) = std::make_shared<const Layout>();
  std::map<uint64_t, int> readers_ FW_GUARDED_BY(mutex_);  // of each generation that has any
  uint64_t last_shown_ FW_GUARDED_BY(mutex_) = 0;  // the last generation with rows in memory
  bool paused_ FW_GUARDED_BY(mutex_) = false;
  std::vector<Retired> retired_ FW_GUARDED_BY(mutex_);
  uint64_t to_be_deleted_ FW_GUARDED_BY(mutex_) = 0;
};

}  // namespace flopwatch::store::duck
