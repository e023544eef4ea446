// A mapping file: which columns of a site's own table say what the books need (jobs/books.h), and
// in which units. TOML; docs/import.md is its reference.
//
// Exactly one of [attempt] (a row is an attempt of a job), [pool] (a row says of a minute how many
// GPUs a pool has, lends and is asked for) and [host] (likewise of hosts) is there. Pure but for
// the zone database that time_zone names; any thread.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"
#include "base/time_zone.h"

namespace flopwatch::table {

// Named limits of a mapping file.
inline constexpr size_t kMaxMappingBytes = 256u << 10;
inline constexpr size_t kMaxMappingWords = 10'000;  // of a list or of translations
inline constexpr size_t kMaxMappingText = 512;      // bytes of a name or word

enum class RowKind : uint8_t { kAttempts, kPools, kHosts };

// What a row can say. Of pools, capacity is how many there are and running how many are lent; of
// hosts the mapping file calls them total and busy.
enum class What : uint8_t {
  kCluster,
  kJob,
  kName,
  kUser,
  kAccount,
  kPartition,
  kQos,
  kWorkflow,
  kState,
  kSubmit,
  kEligible,
  kStart,
  kEnd,
  kDuration,
  kSuspended,
  kGpus,
  kNodes,
  kGpuList,
  kUtilisation,
  kTime,
  kPool,
  kCapacity,
  kRunning,
  kWaiting,
  kPart,
};
inline constexpr size_t kWhats = 25;

// Where one of them comes from and how its text is read.
struct Field {
  enum class From : uint8_t { kNowhere, kColumn, kValue, kRow, kFileName };
  From from = From::kNowhere;
  std::string text;  // the column, the constant, or the pattern of the file's name with one "*"
  // Texts: translations; one that is not among them stays what it is.
  std::map<std::string, std::string, std::less<>> words;
  // Times and durations as numbers: micros of one unit; 0 = written as text.
  Micros unit = 0;
  std::optional<Micros> origin;  // numbers count from here; absent = from 1970, and 0 is no time
  // GPUs from a TRES text ("1=20,4=1,1002=2"): the first of these names that it has.
  std::vector<std::string> tres;
  // Lists of nodes: what stands between two, and what is cut off either end of each; `hostlist`:
  // written as Slurm does, "gpu[001-004]".
  std::string separator, strip;
  bool hostlist = false;
  double scale = 1;  // of a share: 0.01 where 100 is all
  // Of a part of what is running: what its jobs are called, and those of the rest.
  std::string part, rest;

  bool given() const { return from != From::kNowhere; }
};

struct Filter {
  std::string column;
  std::set<std::string, std::less<>> values;
  bool but = false;  // rows with none of them
};

struct Mapping {
  RowKind rows = RowKind::kAttempts;
  bool json_lines = false;
  std::string delimiter = ",";
  std::optional<TimeZone> time_zone;        // of times that are written without one
  std::set<std::string, std::less<>> null;  // cells that say nothing; "" always
  std::vector<Filter> where;
  Micros step = 0;  // time that a row of a series stands for; 0 = what most rows are apart
  std::array<Field, kWhats> fields;

  const Field& operator[](What what) const { return fields[static_cast<size_t>(what)]; }
  Field& operator[](What what) { return fields[static_cast<size_t>(what)]; }
};

// `name` is the file's, for messages: "name:line: what is wrong; what to write".
StatusOr<Mapping> ParseMapping(std::string_view text, std::string_view name);

}  // namespace flopwatch::table
