// Configuration: command-line flag > FLOPWATCH_* environment > TOML file > default, resolved once,
// each value with its origin. The keys are one table; docs/config.md is compared with it by a test.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "base/time.h"

namespace flopwatch::cli {

inline constexpr uint64_t kMaxConfigBytes = 1 << 20;
inline constexpr std::string_view kDefaultListen = "127.0.0.1:9530";

enum class ConfigType : uint8_t { kString, kInteger, kBool, kDuration, kList, kChoice };
std::string_view ConfigTypeName(ConfigType type);

struct ConfigKey {
  std::string_view name;  // "server.listen": table and key of the TOML file
  ConfigType type = ConfigType::kString;
  std::string_view fallback;  // as written in a file; lists are empty by default
  std::string_view help;
  int64_t min = 0, max = 0;           // kInteger; kDuration: the least, in seconds
  std::string_view choices = {};      // kChoice: "debug|info|warn|error"
  std::string_view environment = {};  // only where it is not FLOPWATCH_ + NAME with '_' for '.'
};
const std::vector<ConfigKey>& ConfigKeys();
std::string EnvironmentName(const ConfigKey& key);

struct ConfigValue {
  std::vector<std::string> items;  // exactly one unless the key is a list
  std::string origin;        // "flag --listen", "environment FLOPWATCH_…", "FILE:3", "default"
  std::string Text() const;  // items, one a line
};

using GetEnv = std::function<std::optional<std::string>(std::string_view)>;

struct ConfigFlag {
  std::string key;
  std::vector<std::string> values;
  std::string flag;  // "--listen"
};

// One key of a file, before it is checked against the table.
struct FileEntry {
  std::string key;
  std::vector<std::string> items;
  bool is_list = false;
  int line = 0;
};
// Reads TOML; [[accelerator]] tables are hardware/'s and passed over. Errors name line and column.
StatusOr<std::vector<FileEntry>> ParseConfigFile(std::string_view text, std::string_view file_name);

class ResolvedConfig {
 public:
  // `file_name` "" = no file. Every value is checked against its type, whoever gave it.
  static StatusOr<ResolvedConfig> Resolve(const std::vector<ConfigFlag>& flags,
                                          const GetEnv& getenv, std::string_view file_text,
                                          const std::string& file_name);

  StatusOr<const ConfigValue*> Find(std::string_view key) const;  // unknown: with a suggestion
  const std::string& file_name() const { return file_name_; }
  // FLOPWATCH_* variables that name no key, with the nearest that does: likely typing errors.
  static std::vector<std::string> UnknownVariables(const std::vector<std::string>& names);

 private:
  std::map<std::string, ConfigValue, std::less<>> values_;
  std::string file_name_;
};

// The configuration file to read: `given` (--config or FLOPWATCH_CONFIG) or the first that exists
// of $XDG_CONFIG_HOME/flopwatch/config.toml and /etc/flopwatch/config.toml; "" when there is none.
std::string FindConfigFile(std::string_view given, const GetEnv& getenv);
std::vector<std::string> ConfigFileCandidates(const GetEnv& getenv);
// $XDG_DATA_HOME/flopwatch, ~/.local/share/flopwatch, for root /var/lib/flopwatch.
std::string DefaultDataDirectory(const GetEnv& getenv, bool root);

}  // namespace flopwatch::cli
