#include "cli/progress_line.h"

#include <fmt/format.h>

#include "cli/context_impl.h"

namespace flopwatch::cli {

ProgressLine::ProgressLine(Context& context)
    : context_(context), on_(context.impl()->streams.err_is_terminal && context.verbosity() >= 0) {}

ProgressLine::~ProgressLine() {
  const MutexLock lock(mutex_);
  if (shown_) context_.impl()->streams.err("\r\x1b[K");
}

void ProgressLine::Show(std::string_view text) {
  if (!on_) return;
  const MutexLock lock(mutex_);
  context_.impl()->streams.err(fmt::format("\r\x1b[K{}", text));
  shown_ = true;
}

}  // namespace flopwatch::cli
