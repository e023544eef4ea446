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

#include <string_view>

namespace flopwatch {

// toml::parse(), guarded: use this one. A table's header without a name behind its bracket ("[", "[
// " at the end of a line) and a letter that is not of ASCII outside of strings and comments are
// errors here; the library takes it for granted that there are none, and what it does else is not
// defined. `file_name` appears in the places of the document.
toml::parse_result ParseToml(std::string_view text, std::string_view file_name = {});

// The first of these; line 0 = there is none. In what is no TOML, that before the library's own
// error counts.
struct TomlFault {
  int line = 0;
  std::string_view why = {};
};
TomlFault FaultOfToml(std::string_view text);

}  // namespace flopwatch
