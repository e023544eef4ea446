flopwatch_bench(bench_store SOURCES store.cc ROOMS store LIBS deflate)
