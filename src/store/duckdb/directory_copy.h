// A copy of a data directory while its store is open: what a kill at one moment would have left.
//
// That moment is Logs(): the journals and the logs of all database files are copied while nobody
// appends. The files themselves, which logs refer to, follow in Files(), beside everything else:
// between checkpoints they only grow. Sealed files never change and are linked.
#pragma once

#include <string>

#include "base/status.h"
#include "store/duckdb/layout.h"
#include "store/store.h"

namespace flopwatch::store::duck {

// Checkpoints are put off (Engine::NoCheckpoints) from before Logs() until Files() has returned.
// One thread.
class DirectoryCopy {
 public:
  // `previous`: an earlier copy, "" = none.
  DirectoryCopy(const Options& options, std::string to, std::string previous);

  // Makes the folders. ResourceExhausted where the disk has too little room.
  Status Begin();
  Status Logs(const Layout& layout);
  Status Files(const Layout& layout);
  void Remove();

 private:
  // `name`: of a database file, from the data directory.
  Status CopyDatabase(const std::string& name);
  Status CopyLog(const std::string& name);

  const Options& options_;
  const std::string to_, previous_;
};

}  // namespace flopwatch::store::duck
