// The wall clock of a site that does not keep UTC: exporters and schedulers there may write local
// time without a zone, and once a year an hour of it comes twice, as in Philly's machine list.
#pragma once

#include "base/time.h"

namespace flopwatch::simulate {

// Seconds that US Pacific time is ahead of UTC at a moment (-28800, in summer -25200), by the rules
// in force since 2007: from the second Sunday of March to the first one of November, changed at 2
// o'clock of the old time.
int LocalOffsetSeconds(Micros utc);

}  // namespace flopwatch::simulate
