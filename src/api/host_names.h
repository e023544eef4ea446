// The names under which this server answers. A web page of anyone may make its own name resolve to
// this machine and then read what we answer (DNS rebinding); its requests still carry that name.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace flopwatch::api {

// Immutable; any thread.
class HostNames {
 public:
  // InvalidArgument for what no Host header can be: a URL, a pattern, a name with blanks.
  static Status Valid(std::string_view name);

  // Answered are localhost and the loopback addresses; with `remote` every address too, because a
  // page's name is no address; and `names`, in any case, with or without a port behind them.
  HostNames(bool remote, const std::vector<std::string>& names);
  // PermissionDenied, with what to set, for a Host header that names none of them.
  Status Check(std::string_view host) const;

 private:
  const bool remote_;
  std::vector<std::string> names_;  // lower case, sorted
};

// What this machine calls itself: its host name, the first part of it, and that part under each
// domain that names are searched in. Asks no name server.
std::vector<std::string> MachineNames();

}  // namespace flopwatch::api
