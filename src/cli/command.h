// One file a command: it registers a subcommand with its options and its help (args.h), and a
// function to run.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/table.h"
#include "base/time.h"
#include "cli/args.h"
#include "cli/views/below.h"

namespace flopwatch::cli {

struct ViewOptions;

inline constexpr uint64_t kMaxSqlBytes =
    64 << 10;  // of a query that is read from a file or from stdin

// What every command shares: global options (-o, --server, --data-dir, --no-color, -q, -v,
// --config) and the streams. One thread.
class Context {
 public:
  // Writes a table to stdout in the chosen format (-o, output_formats.h; table on a terminal, tsv
  // in a pipe) and its notes to stderr. --json, --columns, --sort and --limit are applied here; an
  // unknown column is a usage error that lists the known ones. `below`: columns of sentences that
  // a narrow terminal has below their row (views/below.h), unless columns are picked.
  Status Write(const Table& table, std::span<const BelowText> below = {});
  // A whole document to the file `path`, or to stdout where it is "".
  Status WriteDocument(const std::string& path, const std::string& text);
  // Raw data to stdout / talk to stderr (silent with -q).
  void Out(std::string_view text);
  void Say(std::string_view text);
  bool color() const;  // stdout is a terminal and NO_COLOR, TERM=dumb, CLICOLOR=0 do not forbid it
  bool is_terminal() const;  // stdout
  bool ascii() const;  // --ascii: what people read has no block characters; Out() sees to the rest
  int width() const;   // terminal columns, 0 in a pipe
  ViewOptions view() const;  // what cards and reports are drawn with: 100 columns in a pipe
  OutputFormat format() const;
  bool format_given() const;  // -o or --json was set
  bool picks_columns()
      const;  // --json FIELDS, --columns, --sort or --limit was set: write a plain table
  // What views for people are asked for: the format is a table (by choice or on a terminal).
  bool for_people() const;
  int verbosity() const;  // -1 with -q, 0, 1 with -v, ...

  // GET on the API: of the server named by --server / FLOPWATCH_SERVER / config, else of one on the
  // default port, else the same router on the store directory. Body is JSON; errors carry the exit
  // code's meaning.
  StatusOr<std::string> ApiGet(const std::string& path_and_query);
  // POST of a JSON body, to the same place.
  StatusOr<std::string> ApiPost(const std::string& path_and_query, const std::string& json);
  // Where the answers came from: "http://127.0.0.1:9530" or "the store in DIR"; "" before any.
  std::string ApiSource() const;

  // Resolved configuration value ("server.listen", "store.directory", ...): flag > environment >
  // file > default. A list is given with one element a line. "config.file" is the file in use, ""
  // when there is none.
  StatusOr<std::string> Config(std::string_view key);
  StatusOr<std::vector<std::string>> ConfigList(std::string_view key);
  StatusOr<Micros> ConfigDuration(std::string_view key);
  StatusOr<int64_t> ConfigInteger(std::string_view key);
  StatusOr<bool> ConfigBool(std::string_view key);
  // A command's own flag sets a key; call before the first Config().
  void SetFlag(std::string_view key, std::vector<std::string> values, std::string_view flag);

  // The command worked and found something: exit with this code although the status is OK
  // (kUnhealthy, kPartial).
  void SetExitCode(ExitCode code);

  struct Impl;
  explicit Context(Impl* impl) : impl_(impl) {}
  Impl* impl() { return impl_; }

 private:
  Impl* impl_;
};

using Run = std::function<Status(Context&)>;
// Adds the subcommand to `app`, and sets *run to what it runs when it is chosen.
using Register = Args (*)(Args app, Run* run);

struct CommandEntry {
  std::string_view name;
  Register add;
};
// The command table: the order of --help, completion and docs/cli.md (a test compares them).
const std::vector<CommandEntry>& Commands();

}  // namespace flopwatch::cli
