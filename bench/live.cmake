flopwatch_bench(bench_live SOURCES live.cc ROOMS api)
