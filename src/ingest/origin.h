// Where a body of points comes from. The kind decides whose word the node's name is (claims.h) and
// under which source reports of applications are counted (narrow.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace flopwatch::ingest {

enum class SourceKind : uint8_t {
  kExporter,     // is scraped: its name is its URL
  kPush,         // a node sends its exporter's text: its name is the node's
  kRemoteWrite,  // a Prometheus sends points: its name is the instance they are labelled with
  kOtlp,         // a collector or a job sends points: likewise
};

// Host of "node1:9400", "http://node1:9400/metrics".
inline std::string_view HostOfInstance(std::string_view instance) {
  if (const size_t scheme = instance.find("://"); scheme != std::string_view::npos)
    instance.remove_prefix(scheme + 3);
  instance = instance.substr(0, instance.find('/'));
  if (instance.starts_with('[')) return instance.substr(1, instance.find(']') - 1);
  return instance.substr(0, instance.find(':'));
}

// The name of a sender that gives none.
inline constexpr std::string_view kUnnamed = "unnamed";

// Views of what the caller keeps.
struct Origin {
  std::string_view name;
  std::string_view node;  // its host, where labels do not name one
  SourceKind kind = SourceKind::kExporter;
  // Whose budget new things are on (budget.h): SenderOf() who sent the body. Empty for what is
  // scraped, which has its own.
  std::string_view sender = {};
  std::string_view nvlink_domain = {};  // of its GPUs, where labels do not name one

  // The name by which people and the store know it; two origins of one text are one source.
  std::string Text() const {
    std::string text = kind == SourceKind::kExporter ? "" : "push:";
    text += name;
    if (kind == SourceKind::kRemoteWrite) text += "/remote_write";
    if (kind == SourceKind::kOtlp) text += "/otlp";
    return text;
  }
};

}  // namespace flopwatch::ingest
