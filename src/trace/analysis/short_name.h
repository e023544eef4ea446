// Names of kernels and functions made short enough to read, as HTA shortens them in its trace diff
// and critical path.
#pragma once

#include <string>
#include <string_view>

namespace flopwatch::trace {

// The last word of what is left without template arguments and arguments (everything in <> and ()):
// "void at::native::reduce_kernel<512, 1, ...>(...)" is "at::native::reduce_kernel". Linear in the
// length.
std::string ShortName(std::string_view name);

}  // namespace flopwatch::trace
