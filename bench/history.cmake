flopwatch_bench(bench_history SOURCES history.cc ROOMS history store)
