// An address and its labels, however they were written down, as a target of the scraper.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/status.h"
#include "net/scraper.h"

namespace flopwatch::discovery {

using net::ScrapeTarget;
using Labels = std::vector<std::pair<std::string, std::string>>;

inline constexpr uint16_t kExporterPort = 9400;  // dcgm-exporter

// `default_port` 0 is the scheme's. The labels __scheme__, __metrics_path__ and __param_NAME shape
// the URL; those that name a host name the node.
StatusOr<ScrapeTarget> MakeTarget(std::string_view address, const Labels& labels,
                                  uint16_t default_port);

// The label nvlink_domain, or GPU feature discovery's nvidia.com/gpu.clique; "" = none, or one that
// can be no name.
std::string_view NvlinkDomainOf(const ScrapeTarget& target);

// Addresses as people write them, where a range stands for many hosts and port 9400 is meant.
Status AppendAddresses(const std::vector<std::string>& texts, const Labels& labels,
                       size_t max_targets, std::vector<ScrapeTarget>* out);

}  // namespace flopwatch::discovery
