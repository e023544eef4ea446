#include "discovery/discovery.h"

#include <glob.h>
#include <sys/stat.h>

#include <fmt/format.h>
#include <boost/json.hpp>

#include <algorithm>
#include <condition_variable>
#include <map>
#include <mutex>
#include <set>
#include <stop_token>
#include <thread>

#include "absl/container/flat_hash_set.h"
#include "base/file.h"
#include "base/log.h"
#include "base/text.h"
#include "base/toml.h"
#include "net/http.h"
#include "discovery/sd_yaml.h"

namespace flopwatch::discovery {
namespace {

using net::ScrapeTarget;
using Labels = std::vector<std::pair<std::string, std::string>>;
using Group = SdGroup;
namespace json = boost::json;

constexpr uint16_t kExporterPort = 9400;  // dcgm-exporter
constexpr size_t kMaxLabels = 64;
constexpr size_t kMaxHostBytes = 1024;
constexpr uint64_t kMaxProbeBytes = 16ull << 20;

// ---- one address and its labels -> one target

std::string WithoutPort(std::string_view host_port) {
  const size_t colon = host_port.rfind(':');
  const bool bare_ipv6 =
      host_port.find(':') != colon && host_port.find(']') == std::string_view::npos;
  std::string host(bare_ipv6 ? host_port : host_port.substr(0, colon));
  if (host.size() > 2 && host.front() == '[' && host.back() == ']')
    host = host.substr(1, host.size() - 2);
  return host;
}

// `default_port` 0 = the scheme's.
StatusOr<ScrapeTarget> MakeTarget(std::string_view address, const Labels& labels,
                                  uint16_t default_port) {
  const auto label = [&](std::string_view name) -> std::string {
    for (const auto& [key, value] : labels) {
      if (key == name) return value;
    }
    return "";
  };
  address = Strip(address);
  if (address.empty() || address.size() > kMaxHostBytes ||
      address.find_first_of(std::string_view(" \t\r\n\"'<>\0", 9)) != std::string_view::npos) {
    return absl::InvalidArgumentError(
        fmt::format("'{}' is not an address; expected host:port or a URL", Printable(address)));
  }
  ScrapeTarget target;
  std::string scheme = label("__scheme__"), path = label("__metrics_path__");
  const size_t separator = address.find("://");
  if (separator != std::string_view::npos) {
    scheme = address.substr(0, separator);
    address.remove_prefix(separator + 3);
  }
  if (const size_t slash = address.find('/'); slash != std::string_view::npos) {
    if (slash + 1 < address.size() || path.empty()) path = address.substr(slash);
    address = address.substr(0, slash);
  }
  if (scheme.empty()) scheme = "http";
  if (path.empty() || path == "/") path = "/metrics";
  if (path.front() != '/') path.insert(path.begin(), '/');
  std::string query;
  for (const auto& [key, value] : labels) {
    constexpr std::string_view kParam = "__param_";
    if (!key.starts_with(kParam) || key.size() == kParam.size()) continue;
    query +=
        fmt::format("{}{}={}", query.empty() && path.find('?') == std::string::npos ? "?" : "&",
                    net::PercentEncode(key.substr(kParam.size())), net::PercentEncode(value));
  }
  const bool has_port =
      address.find(':', address.find(']') == std::string_view::npos ? 0 : address.find(']')) !=
      std::string_view::npos;
  std::string authority(address);
  if (!has_port && default_port != 0 && separator == std::string_view::npos)
    authority += fmt::format(":{}", default_port);
  target.url = fmt::format("{}://{}{}{}", scheme, authority, path, query);
  if (scheme != "http" && scheme != "https") {
    return absl::InvalidArgumentError(
        fmt::format("'{}': the scheme is neither http nor https", Printable(target.url)));
  }
  for (const std::string_view name :
       {"node", "nodename", "node_name", "hostname", "Hostname", "host"}) {
    if (target.node.empty()) target.node = label(name);
  }
  if (target.node.empty()) target.node = WithoutPort(label("instance"));
  for (const auto& item : labels) {
    if (!item.first.starts_with("__")) target.labels.push_back(item);
  }
  return target;
}

StatusOr<std::vector<ScrapeTarget>> MakeTargets(const std::vector<Group>& groups,
                                                size_t max_targets) {
  std::vector<ScrapeTarget> out;
  for (const Group& group : groups) {
    for (const std::string& address : group.targets) {
      if (out.size() >= max_targets) {
        return absl::ResourceExhaustedError(fmt::format("more than {} targets", max_targets));
      }
      FW_ASSIGN_OR_RETURN(ScrapeTarget target, MakeTarget(address, group.labels, 0));
      out.push_back(std::move(target));
    }
  }
  return out;
}

// "gpu[1-3,7]-[a]" -> only brackets with digits, commas and hyphens are ranges; "[::1]" is an
// address.
StatusOr<std::vector<std::string>> ExpandRanges(std::string_view text, size_t max_targets) {
  size_t open = text.find('[');
  while (open != std::string_view::npos) {
    const size_t close = text.find(']', open);
    if (close == std::string_view::npos)
      return absl::InvalidArgumentError(fmt::format("'{}': '[' without ']'", Printable(text)));
    const std::string_view inside = text.substr(open + 1, close - open - 1);
    if (inside.empty() || inside.find_first_not_of("0123456789,-") != std::string_view::npos) {
      open = text.find('[', close);
      continue;
    }
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> tails,
                        ExpandRanges(text.substr(close + 1), max_targets));
    std::vector<std::string> out;
    std::string_view rest = inside;
    while (!rest.empty()) {
      const std::string_view item = rest.substr(0, rest.find(','));
      rest.remove_prefix(std::min(item.size() + 1, rest.size()));
      const size_t hyphen = item.find('-');
      const std::string first(item.substr(0, hyphen));
      const std::string last =
          hyphen == std::string_view::npos ? first : std::string(item.substr(hyphen + 1));
      const auto number = [](const std::string& s) {
        const bool digits =
            !s.empty() && s.size() <= 9 && s.find_first_not_of("0123456789") == std::string::npos;
        return digits ? std::stol(s) : -1;
      };
      if (number(first) < 0 || number(last) < number(first)) {
        return absl::InvalidArgumentError(fmt::format("'{}': '{}' is not a range like 001-128",
                                                      Printable(text), Printable(item)));
      }
      for (long n = number(first); n <= number(last); ++n) {
        for (const std::string& tail : tails) {
          if (out.size() >= max_targets) {
            return absl::ResourceExhaustedError(
                fmt::format("'{}' stands for more than {} targets", Printable(text), max_targets));
          }
          out.push_back(fmt::format("{}{:0{}}{}", text.substr(0, open), n, first.size(), tail));
        }
      }
    }
    return out;
  }
  return std::vector<std::string>{std::string(text)};
}

// ---- TOML

StatusOr<std::vector<std::string>> TomlStrings(const toml::node& node, std::string_view what) {
  const toml::array* const list = node.as_array();
  std::vector<std::string> out;
  if (list == nullptr)
    return absl::InvalidArgumentError(
        fmt::format("line {}: {} must be a list of strings", node.source().begin.line, what));
  for (const toml::node& item : *list) {
    const auto text = item.value<std::string>();
    if (!text)
      return absl::InvalidArgumentError(
          fmt::format("line {}: {} must hold strings", item.source().begin.line, what));
    out.push_back(*text);
  }
  return out;
}

Status AppendStatic(const std::vector<std::string>& texts, const Labels& labels, size_t max_targets,
                    std::vector<ScrapeTarget>* out) {
  for (const std::string& text : texts) {
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> hosts, ExpandRanges(text, max_targets));
    for (const std::string& host : hosts) {
      if (out->size() >= max_targets)
        return absl::ResourceExhaustedError(fmt::format("more than {} targets", max_targets));
      FW_ASSIGN_OR_RETURN(ScrapeTarget target, MakeTarget(host, labels, kExporterPort));
      out->push_back(std::move(target));
    }
  }
  return absl::OkStatus();
}

Status AppendTomlGroup(const toml::table& group, size_t max_targets,
                       std::vector<ScrapeTarget>* out) {
  Labels labels;
  std::vector<std::string> targets;
  for (const auto& [key, node] : group) {
    const std::string name(key.str());
    const auto line = node.source().begin.line;
    if (name == "targets") {
      FW_ASSIGN_OR_RETURN(targets, TomlStrings(node, "targets"));
    } else if (name == "scheme" || name == "path") {
      const auto text = node.value<std::string>();
      if (!text)
        return absl::InvalidArgumentError(fmt::format("line {}: {} must be a string", line, name));
      labels.emplace_back(name == "scheme" ? "__scheme__" : "__metrics_path__", *text);
    } else if (name == "labels" && node.is_table()) {
      for (const auto& [label, value] : *node.as_table()) {
        const auto text = value.value<std::string>();
        if (!text)
          return absl::InvalidArgumentError(
              fmt::format("line {}: label {} must be a string", line, std::string(label.str())));
        labels.emplace_back(std::string(label.str()), *text);
      }
    } else {
      const std::string_view near = Nearest(name, {"targets", "scheme", "path", "labels"});
      return absl::InvalidArgumentError(
          fmt::format("line {}: unknown key '{}' in [[group]]{}", line, Printable(name),
                      near.empty() ? "" : fmt::format("; did you mean '{}'?", near)));
    }
  }
  return AppendStatic(targets, labels, max_targets, out);
}

// ---- the sources

// What tells that a file changed without reading it.
struct FileStamp {
  int64_t mtime_ns = 0, size = -1;
  uint64_t inode = 0;
  bool operator==(const FileStamp&) const = default;
};

FileStamp StampOf(const std::string& path) {
  struct stat s {};
  if (stat(path.c_str(), &s) != 0) return {};
  return {s.st_mtim.tv_sec * 1'000'000'000 + s.st_mtim.tv_nsec, s.st_size, s.st_ino};
}

bool IsPattern(const std::string& path) { return path.find_first_of("*?[") != std::string::npos; }

std::vector<std::string> Matches(const std::string& pattern) {
  if (!IsPattern(pattern)) return {pattern};
  glob_t found{};
  std::vector<std::string> out;
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
    out.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  globfree(&found);
  return out;
}

enum class SourceKind { kStatic, kTargetFile, kFileSd, kHttpSd };

struct Source {
  struct File {
    FileStamp stamp;
    std::vector<ScrapeTarget> targets;  // the last good list
    std::string error;
  };
  SourceKind kind;
  std::string place;
  DiscoveryHealth health;
  std::vector<ScrapeTarget> targets;  // static and http_sd
  std::map<std::string, File> files;  // by path
  Micros next = 0;                    // monotonic
};

class DiscoveryImpl final : public Discovery {
 public:
  DiscoveryImpl(DiscoveryOptions options, OnTargets on_targets)
      : options_(std::move(options)), on_targets_(std::move(on_targets)) {
    const auto add = [this](SourceKind kind, std::string_view name,
                            const std::vector<std::string>& places) {
      for (const std::string& place : places) {
        Source& s = sources_.emplace_back();
        s.kind = kind;
        s.place = place;
        s.health.source = fmt::format("{} {}", name, place);
      }
    };
    if (!options_.static_targets.empty()) {
      sources_.emplace_back().kind = SourceKind::kStatic;
      sources_.back().health.source = "static";
    }
    add(SourceKind::kTargetFile, "file", options_.target_files);
    add(SourceKind::kFileSd, "file_sd", options_.file_sd);
    add(SourceKind::kHttpSd, "http_sd", options_.http_sd);
  }

  Status Init() {
    for (Source& s : sources_) {
      if (s.kind != SourceKind::kStatic) continue;
      FW_RETURN_IF_ERROR(
          AppendStatic(options_.static_targets, {}, options_.max_targets, &s.targets));
      s.health.targets = s.targets.size();
      s.health.last_refresh = Now();
    }
    // http_sd waits for the thread: a server that does not answer must not hold the start.
    Look(/*all=*/false, [](const Source& s) { return s.kind != SourceKind::kHttpSd; });
    for (const Source& s : sources_) {
      if (s.kind == SourceKind::kTargetFile && !s.health.error.empty()) {
        return absl::InvalidArgumentError(fmt::format("{}: {}", s.health.source, s.health.error));
      }
    }
    started_ = true;
    thread_ = std::jthread([this](std::stop_token stop) { Run(stop); });
    return absl::OkStatus();
  }

  void Refresh() override {
    Look(/*all=*/true, [](const Source&) { return true; });
  }

  std::vector<DiscoveryHealth> Health() const override {
    const std::lock_guard lock(health_mutex_);
    return health_;
  }

 private:
  void Run(std::stop_token stop) {
    std::mutex mutex;
    std::condition_variable_any wake;
    while (!stop.stop_requested()) {
      Look(/*all=*/false, [](const Source&) { return true; });
      Micros next = MonotonicNow() + kMicrosPerMinute;
      {
        const std::lock_guard look(look_mutex_);
        for (const Source& s : sources_) {
          if (s.kind != SourceKind::kStatic) next = std::min(next, s.next);
        }
      }
      std::unique_lock lock(mutex);
      wake.wait_for(lock, stop,
                    std::chrono::microseconds(std::max<Micros>(next - MonotonicNow(), 10'000)),
                    [] { return false; });
    }
  }

  // Looks at the sources that are due (or at all), then hands over the list when it changed.
  template <typename Wanted>
  void Look(bool all, Wanted wanted) {
    const std::lock_guard lock(look_mutex_);
    const Micros now = MonotonicNow();
    for (Source& s : sources_) {
      if (!wanted(s) || (!all && now < s.next)) continue;
      if (s.kind == SourceKind::kTargetFile || s.kind == SourceKind::kFileSd) LookAtFiles(&s, all);
      if (s.kind == SourceKind::kHttpSd) LookAtHttp(&s);
      s.next = MonotonicNow() +
               (s.kind == SourceKind::kHttpSd ? options_.http_refresh : options_.file_poll);
    }
    Publish();
  }

  StatusOr<std::vector<ScrapeTarget>> ReadTargets(const Source& s, const std::string& path) const {
    StatusOr<std::string> text = flopwatch::ReadFile(path, options_.max_bytes);
    if (!text.ok()) return text.status();
    const bool yaml = path.ends_with(".yml") || path.ends_with(".yaml");
    auto targets = s.kind == SourceKind::kTargetFile ? ParseTargetsToml(*text, options_.max_targets)
                   : yaml                            ? ParseSdYaml(*text, options_.max_targets)
                                                     : ParseSdJson(*text, options_.max_targets);
    return targets.ok() || !IsPattern(s.place) ? targets : Annotate(targets.status(), path);
  }

  void LookAtFiles(Source* s, bool all) {
    std::map<std::string, Source::File> files;
    std::string error;
    size_t count = 0;
    for (const std::string& path : Matches(s->place)) {
      Source::File file;
      if (const auto known = s->files.find(path); known != s->files.end())
        file = std::move(known->second);
      const FileStamp stamp = StampOf(path);
      if (all || stamp != file.stamp || stamp.size < 0) {
        auto targets = ReadTargets(*s, path);
        if (targets.ok()) {
          file.targets = *std::move(targets);
          file.error.clear();
        } else {
          const std::string why = Printable(std::string(targets.status().message()), 400);
          // A broken file that stays as it is counts once.
          if (why != file.error || stamp != file.stamp) Failed(s, why);
          file.error = why;
        }
        file.stamp = stamp;
      }
      if (!file.error.empty()) error = file.error;
      count += file.targets.size();
      files.emplace(path, std::move(file));
    }
    s->files = std::move(files);
    if (s->files.empty()) error = fmt::format("no file matches {}", Printable(s->place));
    s->health.error = error;
    s->health.targets = count;
    if (error.empty()) s->health.last_refresh = Now();
  }

  void LookAtHttp(Source* s) {
    net::FetchOptions fetch;
    fetch.timeout = options_.http_timeout;
    fetch.max_body_bytes = options_.max_bytes;
    fetch.headers = {
        {"Accept", "application/json"},
        {"X-Prometheus-Refresh-Interval-Seconds",
         fmt::format("{:g}", static_cast<double>(options_.http_refresh) / kMicrosPerSecond)}};
    const auto answer = net::Fetch(s->place, fetch);
    StatusOr<std::vector<ScrapeTarget>> targets = absl::UnknownError("");
    if (!answer.ok()) {
      targets = answer.status();
    } else if (answer->status != 200) {
      targets = absl::UnavailableError(
          fmt::format("HTTP status {} {}", answer->status, net::ReasonPhrase(answer->status)));
    } else {
      targets = ParseSdJson(answer->body, options_.max_targets);
    }
    if (!targets.ok()) {
      s->health.error = Printable(std::string(targets.status().message()), 400);
      return Failed(s, s->health.error);
    }
    s->targets = *std::move(targets);
    s->health.targets = s->targets.size();
    s->health.error.clear();
    s->health.last_refresh = Now();
  }

  void Failed(Source* s, const std::string& why) {
    ++s->health.failures;
    if (!started_ && s->kind == SourceKind::kTargetFile) return;  // stops the start, which says so
    LogWarn("{}: {}; {}", s->health.source, why,
            s->health.targets > 0
                ? fmt::format("its last good list of {} targets is kept", s->health.targets)
                : "it gives no targets");
  }

  void Publish() {
    std::vector<ScrapeTarget> merged;
    absl::flat_hash_set<std::string> urls;
    std::vector<DiscoveryHealth> health;
    const auto take = [&](const std::vector<ScrapeTarget>& targets) {
      for (const ScrapeTarget& t : targets) {
        if (urls.insert(t.url).second) merged.push_back(t);
      }
    };
    for (const Source& s : sources_) {
      take(s.targets);
      for (const auto& [path, file] : s.files) take(file.targets);
      health.push_back(s.health);
    }
    {
      const std::lock_guard lock(health_mutex_);
      health_ = std::move(health);
    }
    const auto same = [](const ScrapeTarget& a, const ScrapeTarget& b) {
      return a.url == b.url && a.node == b.node && a.labels == b.labels;
    };
    if (published_ && std::equal(merged.begin(), merged.end(), last_.begin(), last_.end(), same))
      return;
    published_ = true;
    last_ = merged;
    on_targets_(std::move(merged));
  }

  const DiscoveryOptions options_;
  const OnTargets on_targets_;
  std::mutex look_mutex_;  // sources_ and what was handed over
  std::vector<Source> sources_;
  std::vector<ScrapeTarget> last_;
  bool published_ = false, started_ = false;
  mutable std::mutex health_mutex_;
  std::vector<DiscoveryHealth> health_;
  std::jthread thread_;  // last: stops before what it uses goes
};

}  // namespace

StatusOr<std::vector<ScrapeTarget>> ParseSdJson(std::string_view text, size_t max_targets) {
  json::parse_options parse;
  parse.max_depth = 8;
  boost::system::error_code ec;
  const json::value root = json::parse({text.data(), text.size()}, ec, {}, parse);
  if (ec) return absl::InvalidArgumentError(fmt::format("not valid JSON: {}", ec.message()));
  const json::array* const list = root.if_array();
  if (list == nullptr)
    return absl::InvalidArgumentError("expected a JSON list of {\"targets\":[…],\"labels\":{…}}");
  std::vector<Group> groups;
  for (const json::value& item : *list) {
    const auto bad = [&](std::string_view why) {
      return absl::InvalidArgumentError(fmt::format("element {}: {}", groups.size(), why));
    };
    const json::object* const object = item.if_object();
    if (object == nullptr) return bad("not an object");
    Group group;
    for (const auto& [key, value] : *object) {
      if (key == "targets") {
        const json::array* const targets = value.if_array();
        if (targets == nullptr) return bad("\"targets\" is not a list");
        for (const json::value& t : *targets) {
          if (!t.is_string()) return bad("a target is not a string");
          group.targets.emplace_back(t.get_string().data(), t.get_string().size());
        }
      } else if (key == "labels") {
        if (value.is_null()) continue;
        const json::object* const labels = value.if_object();
        if (labels == nullptr) return bad("\"labels\" is not an object");
        if (labels->size() > kMaxLabels) return bad(fmt::format("more than {} labels", kMaxLabels));
        for (const auto& [name, v] : *labels) {
          if (!v.is_string()) return bad("a label value is not a string");
          group.labels.emplace_back(std::string(name),
                                    std::string(v.get_string().data(), v.get_string().size()));
        }
      } else {
        return bad(fmt::format("unknown key \"{}\"", Printable(std::string(key))));
      }
    }
    groups.push_back(std::move(group));
  }
  return MakeTargets(groups, max_targets);
}

StatusOr<std::vector<ScrapeTarget>> ParseSdYaml(std::string_view text, size_t max_targets) {
  FW_ASSIGN_OR_RETURN(const std::vector<Group> groups, SdYaml(text).Parse());
  for (const Group& group : groups) {
    if (group.labels.size() > kMaxLabels)
      return absl::InvalidArgumentError(fmt::format("more than {} labels", kMaxLabels));
  }
  return MakeTargets(groups, max_targets);
}

StatusOr<std::vector<ScrapeTarget>> ParseTargetsToml(std::string_view text, size_t max_targets) {
  const toml::parse_result parsed = toml::parse(text);
  if (!parsed) {
    return absl::InvalidArgumentError(fmt::format("line {}: {}", parsed.error().source().begin.line,
                                                  std::string(parsed.error().description())));
  }
  const toml::table& root = parsed.table();
  std::vector<ScrapeTarget> out;
  const toml::table* const scrape = root["scrape"].as_table();
  for (const toml::node* const list :
       {root.get("targets"), scrape == nullptr ? nullptr : scrape->get("targets")}) {
    if (list == nullptr) continue;
    FW_ASSIGN_OR_RETURN(const std::vector<std::string> texts, TomlStrings(*list, "targets"));
    FW_RETURN_IF_ERROR(AppendStatic(texts, {}, max_targets, &out));
  }
  if (const toml::node* const groups = root.get("group")) {
    if (!groups->is_array_of_tables()) {
      return absl::InvalidArgumentError(
          fmt::format("line {}: write groups as [[group]]", groups->source().begin.line));
    }
    for (const toml::node& group : *groups->as_array())
      FW_RETURN_IF_ERROR(AppendTomlGroup(*group.as_table(), max_targets, &out));
  }
  if (scrape == nullptr) {  // the configuration file has keys of its own; a target file only these
    for (const auto& [key, node] : root) {
      if (key.str() == "targets" || key.str() == "group") continue;
      return absl::InvalidArgumentError(
          fmt::format("line {}: unknown key '{}'; expected targets = [\"host:9400\"] or [[group]]",
                      node.source().begin.line, Printable(std::string(key.str()))));
    }
  }
  return out;
}

StatusOr<std::vector<ScrapeTarget>> ParseStaticTarget(std::string_view text, size_t max_targets) {
  std::vector<ScrapeTarget> out;
  FW_RETURN_IF_ERROR(AppendStatic({std::string(text)}, {}, max_targets, &out));
  return out;
}

StatusOr<std::unique_ptr<Discovery>> Discovery::Start(DiscoveryOptions options,
                                                      OnTargets on_targets) {
  auto discovery = std::make_unique<DiscoveryImpl>(std::move(options), std::move(on_targets));
  FW_RETURN_IF_ERROR(discovery->Init());
  return discovery;
}

std::vector<LocalExporter> FindLocalExporters(const ProbeOptions& options) {
  // A metric name that only this exporter has, at the start of a line.
  static constexpr std::pair<std::string_view, std::string_view> kMarks[] = {
      {"DCGM_FI_", "dcgm-exporter"},
      {"dcgm_", "dcgm-exporter"},
      {"nvidia_smi_", "nvidia_gpu_exporter"},
      {"nvidia_gpu_", "nvidia_gpu_prometheus_exporter"},
      {"gpu_gfx_activity", "amd device-metrics-exporter"},
      {"gpu_prof_", "amd device-metrics-exporter"},
      {"amd_gpu_", "amd device-metrics-exporter"},
  };
  std::vector<LocalExporter> found(options.ports.size());
  {
    std::vector<std::jthread> probes;
    for (size_t i = 0; i < options.ports.size(); ++i) {
      probes.emplace_back([&, i] {
        const std::string url = fmt::format("http://127.0.0.1:{}/metrics", options.ports[i]);
        net::FetchOptions fetch;
        fetch.timeout = options.timeout;
        fetch.max_body_bytes = kMaxProbeBytes;
        const auto answer = net::Fetch(url, fetch);
        if (!answer.ok() || answer->status != 200) return;
        for (const auto& [mark, kind] : kMarks) {
          if (answer->body.starts_with(mark) ||
              answer->body.find(fmt::format("\n{}", mark)) != std::string::npos) {
            found[i] = {url, std::string(kind)};
            return;
          }
        }
      });
    }
  }
  std::erase_if(found, [](const LocalExporter& e) { return e.url.empty(); });
  return found;
}

}  // namespace flopwatch::discovery
