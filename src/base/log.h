// Logging to stderr: level, time, message. stdout is for data alone. The logging library stays in
// log.cc.
#pragma once

#include <fmt/format.h>

#include <string_view>

namespace flopwatch {

enum class LogLevel { kDebug, kInfo, kWarn, kError };

void SetLogLevel(LogLevel level);
void LogMessage(LogLevel level, std::string_view message);

template <typename... Args>
void LogInfo(fmt::format_string<Args...> f, Args&&... args) {
  LogMessage(LogLevel::kInfo, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void LogWarn(fmt::format_string<Args...> f, Args&&... args) {
  LogMessage(LogLevel::kWarn, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void LogError(fmt::format_string<Args...> f, Args&&... args) {
  LogMessage(LogLevel::kError, fmt::format(f, std::forward<Args>(args)...));
}
template <typename... Args>
void LogDebug(fmt::format_string<Args...> f, Args&&... args) {
  LogMessage(LogLevel::kDebug, fmt::format(f, std::forward<Args>(args)...));
}

}  // namespace flopwatch
