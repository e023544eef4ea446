flopwatch_bench(bench_parse SOURCES parse.cc ROOMS telemetry)
