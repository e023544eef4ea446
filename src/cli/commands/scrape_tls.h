// Whom commands that ask exporters trust, and who they are: scrape.ca_file, cert_file, key_file.
#pragma once

#include "cli/command.h"
#include "net/tls.h"

namespace flopwatch::cli {

inline StatusOr<net::TlsFiles> ScrapeTlsOf(Context& context) {
  net::TlsFiles files;
  FW_ASSIGN_OR_RETURN(files.ca, context.Config("scrape.ca_file"));
  FW_ASSIGN_OR_RETURN(files.cert, context.Config("scrape.cert_file"));
  FW_ASSIGN_OR_RETURN(files.key, context.Config("scrape.key_file"));
  if (files.cert.empty() != files.key.empty())
    return InvalidArgument(
        "scrape.cert_file is '{}' and scrape.key_file '{}': a certificate and its key belong "
        "together; give both, or neither",
        files.cert, files.key);
  return files;
}

}  // namespace flopwatch::cli
