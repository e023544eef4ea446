// toml++, set up once for every reader of TOML: a parse error is a value and not an exception, and
// the library's code, which is all headers, is compiled in toml.cc alone.
#pragma once

#define TOML_EXCEPTIONS 0
#define TOML_ENABLE_FORMATTERS 0
#define TOML_HEADER_ONLY 0
// Its assertions hold for no text that is no TOML ("x = ," is one): a parse error is a value, in
// debug builds too.
#define TOML_ASSERT(expr) static_assert(true)
#include <toml++/toml.h>
