#include "cli/config.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>

#include "base/text.h"
#include "store/store.h"

namespace flopwatch::cli {
namespace {

static_assert(store::kDefaultMemoryMb == 512, "the text below says so");

std::string Upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c == '.') c = '_';
    if (c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
  }
  return out;
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> out;
  while (!text.empty()) {
    const size_t at = std::min(text.find(separator), text.size());
    std::string_view part = text.substr(0, at);
    text.remove_prefix(std::min(at + 1, text.size()));
    while (!part.empty() && part.front() == ' ') part.remove_prefix(1);
    while (!part.empty() && part.back() == ' ') part.remove_suffix(1);
    if (!part.empty()) out.emplace_back(part);
  }
  return out;
}

StatusOr<int64_t> Integer(std::string_view text) {
  int64_t v = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (ec != std::errc() || end != text.data() + text.size()) {
    return InvalidArgument("\"{}\" is not a whole number", Printable(text, 80));
  }
  return v;
}

const ConfigKey* FindKey(std::string_view name) {
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.name == name) return &key;
  }
  return nullptr;
}

std::string Suggestion(std::string_view name) {
  std::vector<std::string_view> names;
  for (const ConfigKey& key : ConfigKeys()) names.push_back(key.name);
  const std::string_view nearest = Nearest(name, names);
  return nearest.empty() ? "\"flopwatch config show\" lists all keys"
                         : fmt::format("did you mean \"{}\"?", nearest);
}

Status CheckValue(const ConfigKey& key, const ConfigValue& value) {
  const auto bad = [&](std::string_view why, std::string_view next) {
    return InvalidArgument("cannot use {} ({}): {}; {}", key.name, value.origin, why, next);
  };
  if (key.type == ConfigType::kList) return absl::OkStatus();
  if (value.items.size() != 1)
    return bad("one value is expected, not a list", "write it without brackets");
  const std::string& text = value.items[0];
  switch (key.type) {
    case ConfigType::kInteger: {
      const auto v = Integer(text);
      if (!v.ok())
        return bad(std::string(v.status().message()),
                   fmt::format("give {} to {}", key.min, key.max));
      if (*v < key.min || *v > key.max) {
        return bad(fmt::format("{} is out of range", *v),
                   fmt::format("give {} to {}", key.min, key.max));
      }
      return absl::OkStatus();
    }
    case ConfigType::kBool:
      if (text != "true" && text != "false") {
        return bad(fmt::format("\"{}\" is neither true nor false", Printable(text, 80)),
                   "write true or false");
      }
      return absl::OkStatus();
    case ConfigType::kDuration: {
      const auto d = ParseDuration(text);
      if (!d.ok())
        return bad(fmt::format("\"{}\" is not a duration", Printable(text, 80)),
                   "write for example 10s or 15d");
      if (*d <= 0) return bad("it must be longer than nothing", "write for example 10s or 15d");
      if (*d < key.min * kMicrosPerSecond) {
        return bad(fmt::format("{} is too short", FormatDuration(*d)),
                   fmt::format("write {} or more", FormatDuration(key.min * kMicrosPerSecond)));
      }
      return absl::OkStatus();
    }
    case ConfigType::kChoice: {
      for (const std::string& choice : Split(key.choices, '|')) {
        if (choice == text) return absl::OkStatus();
      }
      return bad(fmt::format("\"{}\" is not one of its values", Printable(text, 80)),
                 fmt::format("choose one of {}", key.choices));
    }
    case ConfigType::kString:
    case ConfigType::kList:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

std::string_view ConfigTypeName(ConfigType type) {
  // The names are in the order of ConfigType.
  static constexpr std::string_view kNames[] = {"string",   "integer", "boolean",
                                                "duration", "list",    "choice"};
  return kNames[static_cast<size_t>(type)];
}

const std::vector<ConfigKey>& ConfigKeys() {
  using T = ConfigType;
  static const auto* const keys = new std::vector<ConfigKey>{
      // A row is name, type, fallback and help; then, where they say something, min, max, choices
      // and environment.
      {"client.server", T::kString, "",
       "Server the reading commands ask, e.g. http://head:9530. Empty: the one on server.listen if "
       "something answers there, else the store directory.",
       0, 0, "", "FLOPWATCH_SERVER"},
      {"server.listen", T::kString, kDefaultListen,
       "Address and port of the HTTP server. Anything but loopback needs serve --allow-remote."},
      {"server.hosts", T::kList, "",
       "Names under which the server answers, besides addresses, localhost and what this machine "
       "calls itself. A request for another name may come from a web page that made its name "
       "point here (DNS rebinding) and is refused."},
      {"server.threads", T::kInteger, "1", "Threads that answer HTTP requests.", 1, 256},
      {"server.time_zone", T::kString, "",
       "The site's time zone (Europe/Berlin, +02:00): where a month of usage begins and ends. "
       "Empty: "
       "UTC."},
      {"store.directory", T::kString, "",
       "Data directory. Empty: /var/lib/flopwatch for root, else $XDG_DATA_HOME/flopwatch "
       "(~/.local/share/flopwatch)."},
      {"store.memory_limit_mb", T::kInteger, "512", "Memory the embedded database may use, in MiB.",
       512, 1 << 20},
      {"store.threads", T::kInteger, "2", "Threads of the embedded database.", 1, 256},
      {"store.raw_retention", T::kDuration, "15d", "How long every sample is kept."},
      {"store.minute_retention", T::kDuration, "90d",
       "How long one-minute rollups of GPUs, jobs and the fleet are kept."},
      {"store.hour_retention", T::kDuration, "2y", "How long one-hour rollups of GPUs are kept."},
      {"scrape.interval", T::kDuration, "10s", "Time between two scrapes of a target."},
      {"scrape.timeout", T::kDuration, "8s",
       "Time one scrape may take; cut to the interval where it is longer."},
      {"scrape.targets", T::kList, "",
       "Exporters: HOST, HOST:PORT (9400 and /metrics where not said) or URL; gpu[001-128] stands "
       "for 128 hosts."},
      {"scrape.targets_file", T::kString, "",
       "TOML file with targets = [...] and [[group]] tables; the configuration file itself may be "
       "named. Read again when it changes."},
      {"scrape.file_sd", T::kList, "",
       "Prometheus file_sd files or patterns (JSON or YAML). Read again when they change."},
      {"scrape.http_sd", T::kList, "", "Prometheus http_sd URLs, asked every minute."},
      {"scrape.ca_file", T::kString, "",
       "PEM file of the authorities that exporters and http_sd on https are held against. Empty: "
       "the system's."},
      {"scrape.cert_file", T::kString, "",
       "PEM file with this client's certificate and its chain, for exporters that ask for one "
       "(mutual TLS); with scrape.key_file."},
      {"scrape.key_file", T::kString, "",
       "PEM file with the key of scrape.cert_file, without a passphrase."},
      {"scrape.max_body_bytes", T::kInteger, "16777216",
       "Largest scrape accepted, in bytes after decompression.", 1024, int64_t{1} << 32},
      {"scrape.threads", T::kInteger, "1", "Threads that scrape.", 1, 64},
      {"jobs.static_file", T::kString, "",
       "CSV or TOML file that says which job owned which GPU when; stronger than labels. Read "
       "again when it changes."},
      {"inventory.file", T::kString, "",
       "CSV list of the hosts that are deployed and their GPUs (docs/sankey.md), where no "
       "scheduler "
       "lists them."},
      {"slurm.enabled", T::kBool, "false",
       "Ask Slurm who runs where (docs/slurm.md). A section [slurm] in the file is enough."},
      {"slurm.poll", T::kDuration, "30s", "Time between two looks at jobs and nodes; at least 30s.",
       30},
      {"slurm.backfill", T::kDuration, "14d",
       "How far back accounting is asked at the start, where the site keeps one."},
      {"slurm.time_limit", T::kDuration, "20s",
       "Time one of Slurm's commands may take; then it is ended, and what was known stays.", 1},
      {"slurm.path", T::kString, "",
       "Folder of scontrol, sacct and sacctmgr. Empty: they are looked for in PATH."},
      {"slurm.conf", T::kString, "",
       "Configuration file of the cluster (SLURM_CONF). Empty: where the commands look for it."},
      {"slurm.cluster", T::kString, "",
       "Name of the cluster, as accounting has it. Empty: the controller says it."},
      {"traces.max_mb", T::kInteger, "20480",
       "Room for uploaded traces, in MiB; the oldest go first. 0 takes none.", 0, int64_t{1} << 30},
      {"traces.max_upload_mb", T::kInteger, "2048", "Largest file of an uploaded trace, in MiB.", 1,
       1 << 20},
      {"traces.max_events", T::kInteger, "8000000",
       "Events of one uploaded trace, all its files together, because each takes about 200 "
       "bytes of memory.",
       1000, 200'000'000},
      {"sql.max_memory_mb", T::kInteger, "384",
       "Memory that the process of one query in SQL may take, in MiB; one that needs more fails.",
       128, 1 << 20},
      {"sql.timeout", T::kDuration, "30s", "Longest time of one query in SQL."},
      {"sql.processes", T::kInteger, "2",
       "Queries in SQL that run at once, each in a process of its own; eight more wait.", 1, 64},
      {"traces.max_memory_mb", T::kInteger, "768",
       "Memory that the analysis of an uploaded trace may take, in MiB; one that needs more fails.",
       64, 1 << 20},
      {"traces.retention", T::kDuration, "30d", "How long uploaded traces are kept."},
      {"alerts.enabled", T::kBool, "true", "Look for what needs somebody (docs/alerts.md)."},
      {"alerts.rules_file", T::kString, "",
       "TOML file with rules of the site's own, and changes of those that are shipped."},
      {"alerts.interval", T::kDuration, "15s", "Time between two rounds of the rules.", 1},
      {"alerts.grace", T::kDuration, "5m",
       "Nothing fires so soon after the first start; a later start goes on where it was.", 1},
      {"alerts.alertmanager", T::kList, "", "URLs of Prometheus Alertmanagers (API v2)."},
      {"alerts.webhook", T::kList, "",
       "URLs of recovery services and the like: one POST of JSON for each alert that fires or "
       "ends."},
      {"alerts.slack", T::kList, "", "Incoming webhooks of Slack, Mattermost or Rocket.Chat."},
      {"alerts.mail", T::kString, "",
       "Mail for alerts: smtp://HOST:PORT, smtps://HOST:PORT, sendmail or sendmail:FILE. Empty: "
       "none."},
      {"alerts.mail_from", T::kString, "", "Sender of that mail."},
      {"alerts.mail_operators", T::kString, "",
       "Address of the operators: what is not a user's, and what has no other address."},
      {"alerts.mail_addresses", T::kList, "",
       "Addresses of users: USER=ADDRESS, each its own; stronger than alerts.mail_domain."},
      {"alerts.mail_domain", T::kString, "",
       "A user's address is USER@ this. Empty: only those of alerts.mail_addresses have one."},
      {"alerts.mail_pages", T::kChoice, "now",
       "When a page is mailed: now, or in the digest; tickets and notes are always in the digest.",
       0, 0, "now|digest"},
      {"alerts.mail_digest_hour", T::kInteger, "8",
       "Hour of the day, in server.time_zone, at which each person's digest is sent.", 0, 23},
      {"alerts.mail_starttls", T::kChoice, "offered",
       "TLS of smtp://: where the server offers it, required, or never.", 0, 0,
       "offered|required|never"},
      {"alerts.mail_ca_file", T::kString, "",
       "PEM file of the authorities that the mail server's certificate is held against. Empty: the "
       "system's."},
      {"alerts.mail_login_file", T::kString, "",
       "File with the user in its first line and the password in its second. Empty: no login."},
      {"alerts.token_file", T::kString, "",
       "File with the bearer token for alertmanager and webhook. Empty: none is sent."},
      {"alerts.least", T::kChoice, "note", "Least severe alert that is sent anywhere.", 0, 0,
       "note|ticket|page"},
      {"alerts.external_url", T::kString, "",
       "How people reach the page, e.g. https://flopwatch.example: links in alerts begin with it."},
      {"ui.enabled", T::kBool, "true", "Serve the web page at /."},
      {"log.level", T::kChoice, "info", "Least severe log line written to stderr.", 0, 0,
       "debug|info|warn|error"},
  };
  return *keys;
}

std::string EnvironmentName(const ConfigKey& key) {
  return key.environment.empty() ? "FLOPWATCH_" + Upper(key.name) : std::string(key.environment);
}

std::string ConfigValue::Text() const {
  std::string out;
  for (const std::string& item : items) {
    if (!out.empty()) out += "\n";
    out += item;
  }
  return out;
}

StatusOr<ResolvedConfig> ResolvedConfig::Resolve(const std::vector<ConfigFlag>& flags,
                                                 const GetEnv& getenv, std::string_view file_text,
                                                 const std::string& file_name) {
  ResolvedConfig config;
  config.file_name_ = file_name;
  for (const ConfigKey& key : ConfigKeys()) {
    ConfigValue& value = config.values_[std::string(key.name)];
    if (key.type != ConfigType::kList) value.items = {std::string(key.fallback)};
    value.origin = "default";
  }
  if (ConfigValue& directory = config.values_["store.directory"]; directory.items[0].empty()) {
    directory.items = {DefaultDataDirectory(getenv, geteuid() == 0)};
  }
  if (!file_name.empty()) {
    FW_ASSIGN_OR_RETURN(const std::vector<FileEntry> entries,
                        ParseConfigFile(file_text, file_name));
    for (const FileEntry& entry : entries) {
      const std::string origin = fmt::format("{}:{}", file_name, entry.line);
      const ConfigKey* key = FindKey(entry.key);
      if (key == nullptr) {
        return InvalidArgument("cannot use the configuration file: {}: there is no key \"{}\"; {}",
                               origin, Printable(entry.key, 80), Suggestion(entry.key));
      }
      if (entry.is_list && key->type != ConfigType::kList) {
        return InvalidArgument(
            "cannot use {} ({}): one value is expected, not a list; write it without brackets",
            key->name, origin);
      }
      config.values_[entry.key] = {entry.items, origin};
    }
  }
  for (const ConfigKey& key : ConfigKeys()) {
    const std::string name = EnvironmentName(key);
    if (const std::optional<std::string> text = getenv(name); text.has_value() && !text->empty()) {
      config.values_[std::string(key.name)] = {
          key.type == ConfigType::kList ? Split(*text, ',') : std::vector<std::string>{*text},
          "environment " + name};
    }
  }
  for (const ConfigFlag& flag : flags) {
    if (FindKey(flag.key) == nullptr) return Internal("a flag sets the unknown key {}", flag.key);
    config.values_[flag.key] = {flag.values, "flag " + flag.flag};
  }
  for (const ConfigKey& key : ConfigKeys()) {
    const ConfigValue& value = config.values_.find(key.name)->second;
    FW_RETURN_IF_ERROR(CheckValue(key, value));
  }
  return config;
}

StatusOr<const ConfigValue*> ResolvedConfig::Find(std::string_view key) const {
  const auto it = values_.find(key);
  if (it == values_.end()) {
    return NotFound("there is no configuration key \"{}\"; {}", Printable(key, 80),
                    Suggestion(key));
  }
  return &it->second;
}

std::vector<std::string> ResolvedConfig::UnknownVariables(const std::vector<std::string>& names) {
  // These are no configuration keys, but read elsewhere: by --config, by ./run and by the tests.
  static constexpr std::string_view kOthers[] = {"FLOPWATCH_CONFIG", "FLOPWATCH_DATA",
                                                 "FLOPWATCH_UPDATE_GOLDEN", "FLOPWATCH_DEMO_GPUS"};
  std::vector<std::string> known;
  for (const ConfigKey& key : ConfigKeys()) known.push_back(EnvironmentName(key));
  known.insert(known.end(), std::begin(kOthers), std::end(kOthers));
  const std::vector<std::string_view> views(known.begin(), known.end());
  std::vector<std::string> out;
  for (const std::string& name : names) {
    if (!name.starts_with("FLOPWATCH_") ||
        std::find(known.begin(), known.end(), name) != known.end())
      continue;
    const std::string_view nearest = Nearest(name, views);
    out.push_back(fmt::format("{} in the environment names no key{}", Printable(name, 80),
                              nearest.empty() ? "" : fmt::format("; did you mean {}?", nearest)));
  }
  return out;
}

std::vector<std::string> ConfigFileCandidates(const GetEnv& getenv) {
  std::vector<std::string> out;
  const auto xdg = getenv("XDG_CONFIG_HOME");
  const auto home = getenv("HOME");
  if (xdg && !xdg->empty()) {
    out.push_back(*xdg + "/flopwatch/config.toml");
  } else if (home && !home->empty()) {
    out.push_back(*home + "/.config/flopwatch/config.toml");
  }
  out.emplace_back("/etc/flopwatch/config.toml");
  return out;
}

std::string FindConfigFile(std::string_view given, const GetEnv& getenv) {
  if (!given.empty()) return std::string(given);
  if (const auto named = getenv("FLOPWATCH_CONFIG"); named && !named->empty()) return *named;
  for (const std::string& path : ConfigFileCandidates(getenv)) {
    if (access(path.c_str(), F_OK) == 0) return path;
  }
  return "";
}

std::string DefaultDataDirectory(const GetEnv& getenv, bool root) {
  if (root) return "/var/lib/flopwatch";
  if (const auto xdg = getenv("XDG_DATA_HOME"); xdg && !xdg->empty()) return *xdg + "/flopwatch";
  if (const auto home = getenv("HOME"); home && !home->empty())
    return *home + "/.local/share/flopwatch";
  return "./flopwatch-data";
}

}  // namespace flopwatch::cli
