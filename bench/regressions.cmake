flopwatch_bench(bench_regressions SOURCES regressions.cc ROOMS query store fleet)
