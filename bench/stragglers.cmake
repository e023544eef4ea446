flopwatch_bench(bench_stragglers SOURCES stragglers.cc ROOMS query)
