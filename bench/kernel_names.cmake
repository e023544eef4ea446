flopwatch_bench(bench_kernel_names SOURCES kernel_names.cc ROOMS efficiency)
