// Prometheus' data folder, or a snapshot of one, as a way to read: its blocks, without a server.
// What is damaged costs its own time and no other: of a chunk that of the chunk, of an index that
// of the block, always of all series, since a row of half of its fields would be taken for whole.
// The newest two or three hours are in no block but in the write-ahead log, which is not read: a
// snapshot has them as a block. One thread.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "history/history.h"
#include "history/tsdb_block.h"

namespace flopwatch::history {

class TsdbFolder {
 public:
  // NotFound: there is no block in it (and what to do where there is a write-ahead log).
  static StatusOr<std::unique_ptr<TsdbFolder>> Open(const std::string& path);

  // From the first sample of all blocks to the last.
  store::Window window() const;
  // Of blocks that have to do with the window, sorted. DataLoss: none of them can be read.
  StatusOr<std::vector<std::string>> MetricNames(store::Window window);
  Status Read(const Selector& selector, store::Window window, Visit visit);

  const Unread& unread() const { return unread_; }
  uint64_t blocks() const { return read_; }  // that were read
  uint64_t bytes() const;

 private:
  struct Piece {
    BlockMeta meta;
    std::unique_ptr<Block> block;  // while it is read
    bool was_read = false;
    bool damaged = false;
  };

  explicit TsdbFolder(std::string path) : path_(std::move(path)) {}
  void List();
  void AddBlock(const std::string& name);
  void DropParents();
  void LoseGaps();
  void LookAtLog();
  Status OpenBlock(Piece* piece);
  void Lose(const Piece& piece, int64_t min_ms, int64_t max_ms, std::string_view reason);
  Status ReadBlock(Piece* piece, const Selector& selector, store::Window window, Visit visit);

  const std::string path_;
  std::vector<Piece> pieces_;  // by time
  Unread unread_;
  uint64_t read_ = 0, bytes_ = 0;
};

}  // namespace flopwatch::history
