// What tells idle-held GPU time apart, in numbers, each with its reason. docs/idle.md has the same
// list for a reader, with its limits.
#pragma once

#include "base/time.h"

namespace flopwatch::fleet {

// --- what a row shows ---

// A GPU whose duty cycle and SM activity are no higher runs nothing. Exporters print ratios in
// millionths and GPU_UTIL in whole per cent; monitoring itself touches an empty board for less.
inline constexpr double kIdleDuty = .005;
// Less work than this between two quiet times does not end them: a health check, a clock that is
// read, a byte that is freed. Busy seconds.
inline constexpr double kIdleBlip_s = .5;
// Kernels run and tensor cores do nothing.
inline constexpr double kNoTensorActive = .002;
// Waiting in a collective is a kernel that never ends: the duty cycle is full.
inline constexpr double kSpinDuty = .9;
// A job whose tensor activity is below this while it works is no tensor job: full duty without
// tensor work is what it does (FP32 and FP64 codes are a fifth of a research cluster's time).
inline constexpr double kTensorJob = .01;
// Spinning takes less power than the job's own work. Above this share of it, a tensor counter that
// stands still is as likely as a wait: nothing is said.
inline constexpr double kSpinPower = .85;
// ... where the job's work itself takes little power, SM activity must have moved by this instead,
// at no more power than the work takes, whose mean over other times is off by this.
inline constexpr double kSpinSmMoved = .1;
inline constexpr double kWorkPowerOff = 1.05;
// A kernel that spins keeps its SMs active. Full duty at no more than this is no wait: the
// profiling counters are 0 whatever runs (counters.md, profiling_dead).
inline constexpr double kSpinNoSm = .02;
// Neither is asked where so many of the job's GPUs begin and end it together, two at least:
// counters die one by one.
inline constexpr double kSpinTogether = .9;
// A duty cycle of nothing at a power as high (of the board's limit) is a counter that does not
// count (counters.md: profiling fields silently 0): unknown, not idle.
inline constexpr double kQuietPowerShare = .6;
// Beyond what the empty board has in use; the smallest CUDA context takes more.
inline constexpr double kEmptyMargin_mib = 64;
// An empty board has no more than this in use, whatever was learned of it: drivers that count what
// they reserve for themselves have up to 1.2 GiB.
inline constexpr double kEmptyAtMost_mib = 1536;

// --- how long before it is said ---

// A batch script stages data, a container restarts: for so long no process is ordinary.
inline constexpr Micros kMinNoProcess = 15 * kMicrosPerMinute;
// Checkpoints, data loading and evaluation pause healthy jobs for 5 to 60 minutes; sites that
// cancel idle jobs wait one to two hours.
// Seconds more, because an edge within a row is known no better.
inline constexpr Micros kMinNoWork = 62 * kMicrosPerMinute + 10 * kMicrosPerSecond;
// Containers are pulled, checkpoints are read, graphs are compiled within twenty minutes. A first
// pause that is like the job's others is one of them: it must be longer than any of those by this
// factor, and a GPU that pauses for so much of its time anyway (somebody's notebook) has no start.
inline constexpr Micros kMinStartup = 20 * kMicrosPerMinute;
inline constexpr double kStartupOverPauses = 1.5;
inline constexpr double kPausesAnyway = .25;
// So much must be known of what a single GPU does otherwise: notebooks have one.
inline constexpr Micros kMinKnownOfStart = 30 * kMicrosPerMinute;
// What has less memory in use than this share of the least that its work takes has loaded nothing
// yet: a start, whatever its later pauses are like, for as long as no process at all would be one.
inline constexpr double kLoaded = .8;
inline constexpr Micros kMinUnloadedStart = kMinNoProcess;
// What loaded all of it at once is at a pause like any other.
inline constexpr Micros kMinLoading = 5 * kMicrosPerMinute;
// A job that is over and never ran anything, or not on this GPU, paused from nothing. Two minutes
// are what it takes to begin.
inline constexpr Micros kMinNeverWorked = 2 * kMicrosPerMinute;
// Of a part of a GPU, which is what people try things on.
inline constexpr Micros kMinNeverWorkedShared = 15 * kMicrosPerMinute;
// torch.distributed gives a collective ten minutes before it calls it hung.
inline constexpr Micros kMinBarrier = 10 * kMicrosPerMinute;
inline constexpr Micros kMinHung = 10 * kMicrosPerMinute;
// Of a job that still runs: what is waited for may come.
inline constexpr Micros kMinHungRunning = 30 * kMicrosPerMinute;
// A job may end in an ordinary pause.
inline constexpr Micros kMinAfterLastOutput = kMinNoWork;
// A job that still runs must have had the time to use all of its GPUs.
inline constexpr Micros kMinUnused = 10 * kMicrosPerMinute;

// --- time without samples ---

// What is quiet on both sides of a gap of at most this is one time; the gap itself is unknown, and
// does not make it longer. (Exporters are silent for minutes to hours.)
inline constexpr Micros kIdleMaxGap = 2 * kMicrosPerHour;
// Clocks of hosts and of the scheduler differ by up to this: what a row this near to an edge of
// the job shows may be another job's.
inline constexpr Micros kIdleClockSkew = 5 * kMicrosPerSecond;

// Runs of a sign shorter than this are in sums alone, but for the first quiet ones.
inline constexpr Micros kShortestRun = 5 * kMicrosPerMinute;
inline constexpr size_t kMaxIdleRuns = 8192;  // of one GPU in one job

}  // namespace flopwatch::fleet
