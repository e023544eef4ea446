flopwatch_bench(bench_simulate SOURCES simulate.cc ROOMS simulate)
