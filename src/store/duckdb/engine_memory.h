// The engine's allocator (jemalloc inside libduckdb), told to keep what rows on their way into a
// file will need again soon.
#pragma once

namespace flopwatch::store::duck {

// A row group of 100 fields takes 60 MB while it is made, every ten to thirty seconds. As the
// library comes, that memory goes back to the kernel after a second, and if it did not, would not
// be found again: freed neighbours grow together, and a piece 64 times as large as what is asked
// for is left alone. So every row group was made in fresh pages, which the kernel has to clear (on
// a virtual machine it also has to ask for them): a thirtieth of what the whole server costs. Now
// free memory stays for ten minutes and pieces of any size are used. That is no more than a batch
// of row groups, or a large question before, took.
//
// Does nothing where the library has another allocator. Once for the process, any thread, before
// the engine is under load.
void KeepEngineMemory();

}  // namespace flopwatch::store::duck
