// Batches of rows of several parsers into one table, in order. Internal to import/.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "trace/import/importer.h"
#include "trace/import/kineto_events.h"

namespace flopwatch::trace {

// One thread.
class KinetoTable {
 public:
  KinetoTable(size_t parsers, ImportedRank* rank);

  // Every batch of a parser comes here or to Skip(), in the order in which the parser made them.
  void Append(size_t parser, const KinetoBatch& batch);
  void Skip(size_t parser, const KinetoBatch& batch) { Learn(parser, batch); }
  // Room for `factor` times what there is, without touching the memory.
  void Expect(double factor);

  uint64_t entries() const { return entries_; }
  const KinetoLossCounts& losses() const { return losses_; }
  const std::vector<KinetoBatch::Flow>& flows() const { return flows_; }
  const std::vector<KinetoBatch::Label>& labels() const { return labels_; }

 private:
  static constexpr uint32_t kNotYet = 0xffffffff;
  struct Name {
    std::string_view text;
    NameId id = kNotYet;
  };
  struct ThreadOf {
    Thread thread;
    uint32_t id = kNotYet;
  };
  struct Parser {
    std::vector<Name> names;  // by the parser's own id
    std::vector<ThreadOf> threads;
  };

  void Learn(size_t parser, const KinetoBatch& batch);
  NameId NameOf(Parser* parser, NameId name);
  uint32_t ThreadIdOf(Parser* parser, uint32_t thread);
  void AppendDetails(Parser* parser, const KinetoBatch& batch, size_t first_row);

  ImportedRank* const rank_;
  std::vector<Parser> parsers_;
  absl::flat_hash_map<ThreadKey, uint32_t> thread_ids_;
  std::vector<KinetoBatch::Flow> flows_;
  std::vector<KinetoBatch::Label> labels_;
  KinetoLossCounts losses_{};
  uint64_t entries_ = 0;
};

}  // namespace flopwatch::trace
