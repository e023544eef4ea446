// What the HTTP server reads out of a request's target and how an answer looks on the wire; no I/O.
// Internal to the server.
#pragma once

#include <string>
#include <string_view>

#include "net/http.h"

namespace flopwatch::net {

// Path and query of a request, decoded strictly; false on "%zz", a cut escape or a NUL.
bool DecodeTarget(std::string_view target, Request* request);

// The body of every error: {"error":{"code":…,"message":…,"what":…,"why":…,"try":…}}, the message
// being the whole of the three; why and try are null where there are none.
Response ErrorBody(int status, std::string_view code, const Status& said);
// A refusal by the server itself.
Response Refusal(int status, const Status& said);

// What a client said about the answers it takes.
struct Accepted {
  bool gzip = false;
  std::string if_none_match;
};
// Makes an answer one that the client takes: what it has already is not sent again (304), the body
// packed or unpacked. Once.
void Negotiate(const Accepted& accepted, Response* r);

// "Name: value" and the end of the line; a value cannot start another header.
void AppendHeader(std::string* out, std::string_view name, std::string_view value);

}  // namespace flopwatch::net
