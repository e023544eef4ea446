// What a Kineto trace needs once all of its text is read: absolute times, names of threads, arrows
// between rows. Internal to import/.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "trace/event_table.h"
#include "trace/import/kineto_events.h"
#include "trace/import/kineto_losses.h"

namespace flopwatch::trace {

// `base_time`: ns since the epoch that the times are relative to. Drops rows whose time was lost,
// adds the losses to the trace. Thread ids of `flows` and `labels` index trace->threads.
void FinishKineto(std::optional<int64_t> base_time, const std::vector<KinetoBatch::Flow>& flows,
                  const std::vector<KinetoBatch::Label>& labels, const KinetoLossCounts& losses,
                  RankTrace* trace);

}  // namespace flopwatch::trace
