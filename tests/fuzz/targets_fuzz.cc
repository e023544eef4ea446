// The input is a list of targets, or who holds which GPU, from a file or a server of the site. No
// crash; what comes out is bounded and can be scraped or stored, what is refused has a reason that
// can be printed. The first byte picks the format.
#include <cstdint>
#include <string_view>

#include "base/text.h"
#include "discovery/discovery.h"
#include "fuzz/require.h"
#include "jobs/job_index.h"
#include "net/url.h"

using namespace flopwatch;  // NOLINT: a program of its own

namespace {

constexpr size_t kMaxTargets = 500;

void CheckReason(const Status& status) {
  Require(!status.message().empty(), "no reason");
  Require(IsUtf8(std::string(status.message())) && status.message().size() < 4096,
          "a reason to print");
}

void CheckTargets(const StatusOr<std::vector<net::ScrapeTarget>>& targets) {
  if (!targets.ok()) return CheckReason(targets.status());
  Require(targets->size() <= kMaxTargets, "too many targets");
  for (const net::ScrapeTarget& t : *targets) {
    Require(!t.url.empty() && t.url.size() <= 16384, "a bounded URL");
    // One that cannot be asked is shown with the reason, beside those that can.
    const auto url = net::ParseUrl(t.url);
    if (!url.ok()) CheckReason(url.status());
  }
}

void CheckOwners(std::string_view text, std::string_view file) {
  constexpr Micros kNow = 1'800'000'000'000'000;
  const auto read = jobs::ParseStaticFile(text, file, kNow);
  if (!read.ok()) return CheckReason(read.status());
  for (const jobs::StaticAssignment& a : *read) {
    Require(!a.gpu.empty() && !a.job.empty(), "no GPU or no job");
    Require(a.from < a.to, "ends before it starts");
  }
}

void CheckUrl(std::string_view text) {
  const auto url = net::ParseUrl(text);
  if (!url.ok()) return CheckReason(url.status());
  Require(!url->host.empty() && url->target.starts_with('/'), "host and path");
  const auto again =
      net::ParseUrl((url->tls ? "https://" : "http://") + url->authority + url->target);
  Require(again.ok() && again->host == url->host && again->port == url->port &&
              again->target == url->target,
          "a URL that is read again");
  static_cast<void>(net::ResolveReference("http://a:1/b?c", text));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0 || size > 65536) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'j':
      CheckTargets(discovery::ParseSdJson(text, kMaxTargets));
      break;
    case 'y':
      CheckTargets(discovery::ParseSdYaml(text, kMaxTargets));
      break;
    case 't':
      CheckTargets(discovery::ParseTargetsToml(text, kMaxTargets));
      break;
    case 'c':
      CheckOwners(text, "owners.csv");
      break;
    case 'o':
      CheckOwners(text, "owners.toml");
      break;
    default:
      CheckUrl(text);
  }
  return 0;
}
