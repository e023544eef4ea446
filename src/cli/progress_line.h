// One line on stderr that says how far work is, redrawn; only on a terminal, and gone afterwards.
#pragma once

#include <string_view>

#include "base/mutex.h"
#include "cli/command.h"

namespace flopwatch::cli {

// Threads: any.
class ProgressLine {
 public:
  explicit ProgressLine(Context& context);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  bool on() const { return on_; }
  void Show(std::string_view text);

 private:
  Context& context_;
  const bool on_;
  Mutex mutex_;
  bool shown_ FW_GUARDED_BY(mutex_) = false;
};

}  // namespace flopwatch::cli
