// Who should run first when there are more busy threads than cores: a hint for the calling thread
// and threads it starts later. A kernel that does not take it changes nothing.
#pragma once

namespace flopwatch {

// This is for threads that answer somebody who waits: little work at a time, but soon. It asks for
// a short time slice, which Linux 6.12 and newer honour by letting the thread run before others
// with longer ones. Takes no privilege and no larger share.
void PreferLatency();

}  // namespace flopwatch
