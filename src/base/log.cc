#include "base/log.h"

#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include "base/text.h"

namespace flopwatch {
namespace {

spdlog::logger& Logger() {
  static const auto logger = [] {
    auto l = spdlog::stderr_color_mt("flopwatch");
    l->set_pattern("%Y-%m-%dT%H:%M:%S.%eZ %^%l%$ %v", spdlog::pattern_time_type::utc);
    return l;
  }();
  return *logger;
}

spdlog::level::level_enum Level(LogLevel level) {
  using namespace spdlog::level;
  static constexpr level_enum kLevels[] = {debug, info, warn, err};  // as LogLevel has them
  return kLevels[static_cast<size_t>(level)];
}

}  // namespace

void SetLogLevel(LogLevel level) { Logger().set_level(Level(level)); }
void LogMessage(LogLevel level, std::string_view message) {
  Logger().log(Level(level), "{}", Visible(message));
}

}  // namespace flopwatch
