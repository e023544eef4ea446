// The server's memory on pages of 2 MB where the kernel gives them to those who ask.
#pragma once

namespace flopwatch::cli {

// A server goes through what it knows of every target each interval: tens of megabytes in small
// pieces, so that on pages of 4 KB much of the time goes into finding the pages (twice over on a
// virtual machine). glibc's allocator asks for large ones, but reads that only from GLIBC_TUNABLES
// when a program starts: so this sets it and starts the program once more, as the same process.
//
// Returns, having done nothing, where that is done already or somebody chose (glibc.malloc.hugetlb
// is in the variable), where the kernel gives large pages to all or to nobody, for a program with
// rights of its own, with another libc and under sanitizers. First thing in main().
void RestartOnLargePages(char** argv);

}  // namespace flopwatch::cli
