flopwatch_bench(bench_books SOURCES books.cc ROOMS query LIBS duckdb_c)
