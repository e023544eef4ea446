flopwatch_bench(bench_scrape SOURCES scrape.cc ROOMS net)
