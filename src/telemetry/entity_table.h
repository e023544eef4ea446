// Whose the samples of a target are: label sets -> entities (GPUs, MIG instances) -> the rows of
// one scrape. Internal to the decoder.
//
// A label set is one text between braces, taken apart once; all the metrics of a GPU share it. An
// entity is a GPU or an instance, known by its key; several label sets may belong to it (a GPU with
// two jobs has two). What a scrape does not mention is dropped when something new is learned, so
// the table is bounded by two scrapes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "telemetry/exposition.h"
#include "telemetry/field.h"
#include "telemetry/labels.h"
#include "telemetry/sample.h"

namespace flopwatch::telemetry {

class EntityTable {
 public:
  static constexpr uint32_t kNoRow = ~uint32_t{0};

  EntityTable(size_t max_entities, const std::string* default_node);

  void BeginScrape(int stride);

  // --- slow path ---
  // nullopt = there is none with this key.
  std::optional<uint16_t> FindLabelSet(uint64_t key) const;
  // What ReadLabels said of the set that decides where a series goes, without key, labels, owner.
  LabelFacts FactsOf(uint16_t set) const;
  // `text`: the bytes from the end of the metric name to the value. nullopt = no room for another
  // entity in this scrape.
  std::optional<uint16_t> AddLabelSet(uint64_t key, std::string_view text, LabelFacts facts);
  // `texts()` has that text by label set.
  const std::vector<std::string_view>& texts() const { return texts_; }

  // --- hot path ---
  struct HotSet {
    uint32_t epoch = 0;     // scrape in which it was seen last
    uint32_t row = kNoRow;  // in that scrape
    uint32_t born = 0;      // its number among all label sets there have been; 0: it is gone
    uint8_t attention = 0;  // Conversion flags that need more than a plain store
  };
  // The row of the label set's entity in this scrape; kNoRow past the limit of entities.
  uint32_t RowOf(uint16_t set) {
    const HotSet& hot = hot_[set];
    if (hot.epoch == epoch_) [[likely]]
      return hot.row;
    return FirstSeen(set);
  }
  uint32_t born(uint16_t set) const { return set < hot_.size() ? hot_[set].born : 0; }
  uint8_t attention(uint16_t set) const { return hot_[set].attention; }

  // Row of the GPU an instance belongs to; kNoRow when it is not known or not allowed.
  uint32_t ParentRowOf(uint16_t set);

  enum class Put : uint8_t { kStored, kRepeated, kConflict };
  // Stores a value. `rank`: see FieldMatch; a better one replaces a worse, an equal must agree.
  Put Store(uint32_t row, FieldId field, double value, uint8_t rank) {
    uint64_t& word = present_[row].words[field >> 6];
    const uint64_t bit = uint64_t{1} << (field & 63);
    if ((word & bit) == 0 && rank == 0) [[likely]] {
      word |= bit;
      values_[row * static_cast<size_t>(stride_) + field] = value;
      return Put::kStored;
    }
    return StoreContested(row, field, value, rank);
  }
  // The code that the label `xid` of a set names; -1 = none.
  int32_t XidOf(uint16_t set) const { return sets_[set]->xid; }
  // One of several counts, each of an XID, whose sum is the value. Of one XID, where each owner of
  // the GPU has a line, the most counts.
  void StoreForXid(uint32_t row, FieldId field, double value, uint8_t rank, int32_t xid);
  // One of several readings whose mean is the value.
  void StoreForMean(uint32_t row, FieldId field, double value, uint8_t rank);
  // The field's value was refused as impossible.
  void NoteBeyond(uint32_t row, FieldId field) {
    static_assert(kCanonicalFieldCount <= 64);
    if (row != kNoRow && field < kCanonicalFieldCount) beyond_[row] |= uint64_t{1} << field;
  }
  void NoteTimestamp(uint32_t row, Micros t) { times_[row] = std::max(times_[row].value_or(t), t); }
  // Makes room for a column that was added during the scrape.
  void GrowStride(int stride);

  // --- end of scrape ---
  // Means, clocks of instances, labels and owners; then the rows that hold anything.
  void Publish(std::vector<DecodedRow>* rows);
  // Labels of the label sets that Publish() saw which were repaired or refused, and the text of the
  // first such set.
  struct Marked {
    uint64_t labels = 0;
    std::string_view example;
    void Add(uint8_t n, std::string_view text) {
      if (n == 0) return;
      if (labels == 0) example = text;
      labels += n;
    }
  };
  const Marked& repaired() const { return repaired_; }
  const Marked& refused_owners() const { return refused_owners_; }
  // Drops what this scrape did not mention. Whether a label set was dropped.
  bool DropUnseen();
  bool Seen(uint16_t set) const { return hot_[set].epoch == epoch_ && hot_[set].row != kNoRow; }

  size_t bytes() const;

 private:
  struct LabelSet {
    uint64_t key = 0;
    std::string text;
    uint32_t slot = 0;
    int32_t parent_slot = -1;  // of an instance whose GPU is known
    bool by_index_only = false, unknown_labels = false, error_code = false;
    bool discriminated = false;
    int32_t xid = -1;
    uint8_t repaired_labels = 0, refused_owner_labels = 0;
    std::string clock_type;
    EntityLabels labels;
    OwnerLabels owner;
  };
  struct Entity {
    EntityKey key;
    bool used = false;
    uint32_t epoch = 0;
    uint32_t row = kNoRow;
    uint32_t version = 0;
    uint64_t signature = 0;  // of the label sets it had in its last scrape
    uint64_t signature_now = 0;
    const EntityLabels* labels = nullptr;  // of a label set, or `merged`
    std::unique_ptr<EntityLabels> merged;
    std::vector<const OwnerLabels*> owners;  // of label sets; sorted, distinct, none empty
  };
  struct MeanCell {
    uint32_t row;
    FieldId field;
    uint8_t rank;
    double sum;
    uint32_t count;
  };

  void PublishByXid();
  uint32_t FirstSeen(uint16_t set);
  uint32_t AssignRow(uint32_t slot);
  uint32_t FindOrAddEntity(const EntityKey& key);
  Put StoreContested(uint32_t row, FieldId field, double value, uint8_t rank);
  void Refresh(uint32_t slot);

  size_t max_entities_;
  size_t max_sets_;
  const std::string* default_node_;

  std::vector<std::unique_ptr<LabelSet>> sets_;  // by id; null where free
  std::vector<HotSet> hot_;
  uint32_t last_born_ = 0;
  std::vector<std::string_view> texts_;  // of sets_, for the comparison of every line
  std::vector<uint16_t> free_sets_;
  absl::flat_hash_map<uint64_t, uint16_t> set_by_key_;
  std::vector<Entity> entities_;  // by slot
  std::vector<uint32_t> free_slots_;
  absl::flat_hash_map<uint64_t, uint32_t> slot_by_key_;  // by hash of the key
  uint32_t last_version_ = 0;

  // This scrape.
  uint32_t epoch_ = 0;
  int stride_ = 0;
  std::vector<uint16_t> seen_sets_;
  std::vector<uint32_t> row_slots_;  // row -> slot
  std::vector<uint64_t> beyond_;     // by row, as those that follow
  std::vector<FieldMask> present_;
  std::vector<FieldMask> weak_;  // cells held by a rank other than 0, which is in ranks_
  std::vector<std::optional<Micros>> times_;
  std::vector<double> values_;
  std::vector<uint8_t> ranks_;
  std::vector<MeanCell> means_;
  // By row, field, rank and XID.
  absl::flat_hash_map<std::tuple<uint32_t, FieldId, uint8_t, int32_t>, double> by_xid_;
  Marked repaired_, refused_owners_;
};

// The rank of a value copied from an instance's line to its GPU's row: anything said of the GPU
// itself is better.
inline constexpr uint8_t kCopiedRank = 255;

}  // namespace flopwatch::telemetry
