#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>

#include "base/file.h"
#include "base/text.h"
#include "cli/context_impl.h"
#include "cli/output_formats.h"
#include "cli/sort_spec.h"
#include "cli/views/style.h"

namespace flopwatch::cli {
namespace {

constexpr Micros kProbeTimeout = 500 * kMicrosPerMilli;

bool IsAbsent(const Cell& cell) {
  if (std::holds_alternative<std::monostate>(cell)) return true;
  const auto* d = std::get_if<double>(&cell);
  return d != nullptr && std::isnan(*d);
}

double NumberOf(const Cell& cell) {
  if (const auto* i = std::get_if<int64_t>(&cell)) return static_cast<double>(*i);
  if (const auto* d = std::get_if<double>(&cell)) return *d;
  if (const auto* b = std::get_if<bool>(&cell)) return *b ? 1 : 0;
  return 0;
}

StatusOr<size_t> ColumnIndex(const Table& table, std::string_view name, std::string_view option) {
  std::vector<std::string_view> names;
  std::string list;
  for (size_t c = 0; c < table.columns.size(); ++c) {
    if (table.columns[c].name == name) return c;
    names.push_back(table.columns[c].name);
    list += (list.empty() ? "" : ", ") + table.columns[c].name;
  }
  const std::string_view nearest = Nearest(name, names);
  return InvalidArgument(
      "cannot use {}: there is no column \"{}\"; {}", option, Printable(name, 80),
      nearest.empty() ? "choose from " + list
                      : fmt::format("did you mean \"{}\"? All: {}", nearest, list));
}

}  // namespace

StatusOr<Table> Arrange(const Table& table, const GlobalOptions& options) {
  Table out = table;
  if (!options.sort.empty()) {
    const SortSpec spec = SortSpec::Parse(options.sort);
    FW_ASSIGN_OR_RETURN(const size_t c, ColumnIndex(table, spec.name, "--sort"));
    const auto is_text = [c](const std::vector<Cell>& row) {
      return c < row.size() && std::holds_alternative<std::string>(row[c]);
    };
    const bool text = std::any_of(out.rows.begin(), out.rows.end(), is_text);
    // The largest number comes first, text from A to Z, unless said otherwise; absent ones are
    // last.
    const bool down = spec.descending.value_or(!text);
    std::stable_sort(
        out.rows.begin(), out.rows.end(),
        [&](const std::vector<Cell>& a, const std::vector<Cell>& b) {
          const Cell x = c < a.size() ? a[c] : Cell{}, y = c < b.size() ? b[c] : Cell{};
          if (IsAbsent(x) || IsAbsent(y)) return !IsAbsent(x) && IsAbsent(y);
          const auto *s = std::get_if<std::string>(&x), *t = std::get_if<std::string>(&y);
          if (s != nullptr || t != nullptr) {
            if (s == nullptr || t == nullptr) return s == nullptr;  // numbers before text
            return down ? *t < *s : *s < *t;
          }
          return down ? NumberOf(y) < NumberOf(x) : NumberOf(x) < NumberOf(y);
        });
  }
  if (options.limit > 0 && out.rows.size() > options.limit) {
    out.notes.push_back(fmt::format("{} of {} rows (--limit)", options.limit, out.rows.size()));
    out.rows.resize(options.limit);
  }
  const std::vector<std::string>& picked = options.json.empty() ? options.columns : options.json;
  if (!picked.empty()) {
    std::vector<size_t> order;
    for (const std::string& name : picked) {
      FW_ASSIGN_OR_RETURN(const size_t c,
                          ColumnIndex(table, name, options.json.empty() ? "--columns" : "--json"));
      order.push_back(c);
    }
    std::vector<Column> columns;
    for (const size_t c : order) columns.push_back(out.columns[c]);
    for (auto& row : out.rows) {
      std::vector<Cell> cells;
      for (const size_t c : order) cells.push_back(c < row.size() ? row[c] : Cell{});
      row = std::move(cells);
    }
    out.columns = std::move(columns);
  }
  return out;
}

Status Context::Write(const Table& table, std::span<const BelowText> below) {
  if (impl_->global.json_given && impl_->global.json.empty()) {
    Say("--json takes the fields to write, separated by commas. There are:");
    for (const Column& column : table.columns) Out(column.name + "\n");
    return absl::OkStatus();
  }
  FW_ASSIGN_OR_RETURN(Table arranged, Arrange(table, impl_->global));
  WriteOptions options;
  options.format = format();
  options.color = color();
  options.header = !impl_->global.no_header;
  options.width = width();
  if (ascii()) {
    for (Column& column : arranged.columns) {
      if (column.format == ColumnFormat::kPercentBar) column.format = ColumnFormat::kPercent;
    }
  }
  const bool picked = !impl_->global.columns.empty() || !impl_->global.json.empty();
  Out(picked ? Render(arranged, options) : RenderBelow(arranged, options, below));
  for (const std::string& note : arranged.notes)
    Say(is_terminal() ? Wrap(note, width(), "", "") : note);
  return absl::OkStatus();
}

Status Context::WriteDocument(const std::string& path, const std::string& text) {
  if (path.empty()) {
    Out(text);
    return absl::OkStatus();
  }
  FW_RETURN_IF_ERROR(WriteFileAtomically(path, text));
  Say(fmt::format("wrote {} ({} bytes)", path, text.size()));
  return absl::OkStatus();
}

void Context::Out(std::string_view text) {
  if (!for_people()) return impl_->streams.out(text);
  const std::string shown = WithOwnColorsAlone(text, color());
  impl_->streams.out(ascii() ? ToAscii(shown) : shown);
}

bool Context::ascii() const { return impl_->global.ascii && for_people(); }

void Context::Say(std::string_view text) {
  if (impl_->global.quiet) return;
  std::string line = Visible(text, /*keep_lines=*/true);
  if (line.empty() || line.back() != '\n') line.push_back('\n');
  impl_->streams.err(line);
}

bool Context::color() const { return impl_->color; }
bool Context::is_terminal() const { return impl_->streams.out_is_terminal; }

int Context::width() const {
  if (!is_terminal()) return 0;
  return impl_->streams.width ? impl_->streams.width() : 80;
}

ViewOptions Context::view() const {
  return {.width = width() > 0 ? width() : 100, .color = color(), .ascii = ascii()};
}

OutputFormat Context::format() const {
  for (const auto& [name, format] : kOutputFormats) {
    if (impl_->global.format == name) return format;
  }
  if (impl_->global.json_given) return OutputFormat::kJson;
  return is_terminal() ? OutputFormat::kTable : OutputFormat::kTsv;
}

bool Context::picks_columns() const {
  const GlobalOptions& g = impl_->global;
  return g.json_given || !g.columns.empty() || !g.sort.empty() || g.limit > 0;
}

bool Context::format_given() const {
  return !impl_->global.format.empty() || impl_->global.json_given;
}

bool Context::for_people() const {
  return format() == OutputFormat::kTable || format() == OutputFormat::kWide;
}

int Context::verbosity() const { return impl_->global.quiet ? -1 : impl_->global.verbose; }

void Context::SetExitCode(ExitCode code) { impl_->exit_code = code; }

void Context::SetFlag(std::string_view key, std::vector<std::string> values,
                      std::string_view flag) {
  impl_->flags.push_back({std::string(key), std::move(values), std::string(flag)});
  impl_->config.reset();
}

StatusOr<const ResolvedConfig*> Context::Impl::Resolved() {
  if (config.has_value()) return &*config;
  std::vector<ConfigFlag> all;
  if (!global.server.empty()) all.push_back({"client.server", {global.server}, "--server"});
  if (!global.data_dir.empty()) all.push_back({"store.directory", {global.data_dir}, "--data-dir"});
  all.insert(all.end(), flags.begin(), flags.end());
  const std::string file = FindConfigFile(global.config_file, streams.getenv);
  std::string text;
  if (!file.empty()) {
    auto read = ReadFile(file, kMaxConfigBytes);
    if (!read.ok()) return Annotate(read.status(), "cannot use the configuration file");
    text = *std::move(read);
  }
  auto resolved = ResolvedConfig::Resolve(all, streams.getenv, text, file);
  if (!resolved.ok()) return resolved.status();
  config = *std::move(resolved);
  return &*config;
}

StatusOr<ApiClient*> Context::Impl::Api() {
  if (api != nullptr) return api.get();
  FW_ASSIGN_OR_RETURN(const ResolvedConfig* resolved, Resolved());
  const auto value = [&](std::string_view key) { return (*resolved->Find(key))->items[0]; };
  if (const std::string server = value("client.server"); !server.empty()) {
    api = HttpClient(ServerUrl(server));
    return api.get();
  }
  // A data directory named by hand is read; without one a server on the usual address comes first.
  if (global.data_dir.empty()) {
    const std::string local = ServerUrl(ClientAddress(value("server.listen")));
    if (ServerAnswers(local, kProbeTimeout)) {
      api = HttpClient(local);
      return api.get();
    }
  }
  OfflineOptions options;
  options.directory = value("store.directory");
  const std::string memory = value("store.memory_limit_mb");
  std::from_chars(memory.data(), memory.data() + memory.size(), options.memory_limit_mb);
  if (!resolved->file_name().empty()) {
    FW_ASSIGN_OR_RETURN(options.config_toml, ReadFile(resolved->file_name(), kMaxConfigBytes));
  }
  options.inventory = value("inventory.file");
  auto offline = OfflineClient(options);
  if (!offline.ok()) return offline.status();
  api = *std::move(offline);
  if (!global.quiet) {
    streams.err(fmt::format("no server: reading {}, {}\n", api->Source(),
                            api->newest() ? "data up to " + FormatTime(*api->newest())
                                          : std::string("without a GPU sample")));
  }
  return api.get();
}

StatusOr<std::string> Context::ApiGet(const std::string& path_and_query) {
  FW_ASSIGN_OR_RETURN(ApiClient * client, impl_->Api());
  return client->Request(path_and_query, "");
}

StatusOr<std::string> Context::ApiPost(const std::string& path_and_query, const std::string& json) {
  FW_ASSIGN_OR_RETURN(ApiClient * client, impl_->Api());
  return client->Request(path_and_query, json);
}

std::string Context::ApiSource() const { return impl_->api != nullptr ? impl_->api->Source() : ""; }

StatusOr<std::string> Context::Config(std::string_view key) {
  FW_ASSIGN_OR_RETURN(const ResolvedConfig* config, impl_->Resolved());
  if (key == "config.file") return config->file_name();
  FW_ASSIGN_OR_RETURN(const ConfigValue* value, config->Find(key));
  return value->Text();
}

StatusOr<std::vector<std::string>> Context::ConfigList(std::string_view key) {
  FW_ASSIGN_OR_RETURN(const ResolvedConfig* config, impl_->Resolved());
  FW_ASSIGN_OR_RETURN(const ConfigValue* value, config->Find(key));
  return value->items;
}

StatusOr<Micros> Context::ConfigDuration(std::string_view key) {
  FW_ASSIGN_OR_RETURN(const std::string text, Config(key));
  return ParseDuration(text);
}

StatusOr<int64_t> Context::ConfigInteger(std::string_view key) {
  FW_ASSIGN_OR_RETURN(const std::string text, Config(key));
  int64_t v = 0;
  std::from_chars(text.data(), text.data() + text.size(), v);  // checked when it was resolved
  return v;
}

StatusOr<bool> Context::ConfigBool(std::string_view key) {
  FW_ASSIGN_OR_RETURN(const std::string text, Config(key));
  return text == "true";
}

}  // namespace flopwatch::cli
